"""What a forward costs, and when drafting pays: tables, measurements, the gate."""

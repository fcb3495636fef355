"""Maglio beside other engines and methods: who takes part, what they are given, what they did."""

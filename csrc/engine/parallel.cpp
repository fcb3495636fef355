#include "engine/parallel.h"

#include "engine/pass.h"

namespace maglio {

void Parallel::run(Pass& pass, int member, int layer) const {
  const int n_embd = pass.model.spec.n_embd;
  const auto row_of = [&](std::vector<float>& rows, int row) {
    return rows.data() + static_cast<size_t>(row) * pass.width();
  };
  dense.run(pass, member, layer);
  pass.each_row(member, pass.n(), [&](int row) {
    float* y = row_of(pass.scratch.projected, row);
    pass.norm_output(y, dense.output_bias, dense_post_norm);
    std::copy_n(y, n_embd, row_of(pass.scratch.dense, row));
    pass.norm_input(row, row, experts_norm, experts.reads_codes());
  });
  experts.run(pass, member, layer);
  pass.each_row(member, pass.n(), [&](int row) {
    float* y = row_of(pass.scratch.projected, row);
    pass.norm_output(y, experts.output_bias, experts_post_norm);
    pass.kernels.add(y, row_of(pass.scratch.dense, row), n_embd);
  });
}

}  // namespace maglio

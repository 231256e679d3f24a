// Takes a snapshot and restores it: train STORE
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gradstore/gradient_store.h>
#include <gradstore/snapshot_store.h>

#include <exception>
#include <iostream>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    const at::Tensor weight = at::zeros({2, 3});
    const at::Tensor gradient = at::arange(6, weight.options()).reshape({2, 3}).div(4);

    gradstore::GradientStore gradients;
    gradients.register_param(0, "weight", 0, weight);
    gradients.append_gradients_by_param_id(gradient, 0, 0);

    const auto store = gradstore::SnapshotStore::open(argv[1], {.run_name = "consumer"});
    gradstore::CompanionState state;
    state.tensors = {{"weight", weight}};
    const auto ticket =
        store->snapshot(gradients, {.step = 3, .user_json = R"({"shard":17})"}, state);
    ticket.wait();

    gradstore::GradientStore restored;
    restored.register_param(0, "weight", 0, weight);
    store->restore(ticket.id(), restored);
    const auto slices = restored.get_partitioned_gradients_by_param_id(0, 0);
    store->close();
    if (slices.size() != 1 || !slices[0].equal(gradient)) {
      std::cerr << "restored something else\n";
      return 1;
    }
    std::cout << "snapshot " << to_string(ticket.id()) << " restored bit for bit\n";
  } catch (const std::exception& error) {
    std::cerr << gradstore::describe(error) << '\n';
    return 1;
  }
}

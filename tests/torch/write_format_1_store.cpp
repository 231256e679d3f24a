// Wrote tests/torch/format_1_store, and shows how to write that of a format to come:
//
//   write_format_1_store DIRECTORY
#include "torch/format_1_contents.h"

int main(int argc, char** argv) {
  using namespace gradstore;
  if (argc != 2) return 2;
  std::uint64_t seed = 1;
  for (const int snapshots : {2, 1}) {
    const auto store = SnapshotStore::open(argv[1], {.run_name = "format 1"});
    for (int i = 0; i < snapshots; ++i, ++seed) {
      GradientStore gradients;
      testing::register_format_1(gradients);
      testing::append_format_1(gradients, seed);
      // Every other one has companion state.
      const auto ticket = seed % 2 == 0
                              ? store->snapshot(gradients, testing::format_1_metadata(seed))
                              : store->snapshot(gradients, testing::format_1_metadata(seed),
                                                testing::format_1_state(seed));
      ticket.wait();
    }
    store->pin({1, 2});
    store->close();
  }
}

// Writes a store for grad_inspect_test.py:
//
//   grad_inspect_make_store DIRECTORY          three snapshots, then closes it
//   grad_inspect_make_store DIRECTORY hold     three snapshots, prints "ready", keeps it open and
//                                              saves one more for each line read from stdin
//   grad_inspect_make_store DIRECTORY churn    the same, but saves without pause until stdin ends
//   grad_inspect_make_store DIRECTORY ranks    two ranks, of which the second lacks the second
//                                              snapshot

#include <atomic>
#include <iostream>
#include <string>
#include <thread>

#include "grad_inspect_sample.h"
#include "gradstore/error.h"

using gradstore::Stage;
using gradstore::testing::save;

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string mode = argc > 2 ? argv[2] : "";
  try {
    if (mode == "ranks") {
      for (const std::uint32_t rank : {0u, 1u}) {
        const auto archive = gradstore::testing::open_for_writing(argv[1], rank, 2);
        save(*archive, {0, 8, Stage::post_reduce, false});
        if (rank == 0) save(*archive, {1, 8, Stage::post_reduce, false});
        archive->close();
      }
      return 0;
    }
    const auto archive = gradstore::testing::open_for_writing(argv[1]);
    save(*archive, {0, 4, Stage::pre_reduce, false});
    save(*archive, {1, 8, Stage::clipped, false});
    save(*archive, {1, 8, Stage::post_reduce, true});
    if (!mode.empty()) std::cout << "ready" << std::endl;
    std::string line;
    if (mode == "hold") {
      for (std::uint64_t step = 2; std::getline(std::cin, line); ++step) {
        save(*archive, {step, 1, Stage::post_reduce, true});
        std::cout << "saved" << std::endl;
      }
    } else if (mode == "churn") {
      std::atomic<bool> done = false;
      std::thread input([&] {
        while (std::getline(std::cin, line)) {
        }
        done = true;
      });
      for (std::uint64_t step = 2; !done; ++step) {
        save(*archive, {step, 1, Stage::post_reduce, true});
        std::cout << "saved" << std::endl;
      }
      input.join();
    }
    archive->close();
  } catch (const std::exception& error) {
    std::cerr << "grad_inspect_make_store: " << gradstore::describe(error) << '\n';
    return 1;
  }
  return 0;
}

// The other process of the index's tests. It says on stdout what it has done, a line each.
//
//   index_child hold DIRECTORY              opens the index, says "open", keeps it until stdin ends
//   index_child put DIRECTORY LAST SLICES   puts snapshots (1, 1..LAST) of so many slices, says
//   each
//                                           when it is durable; then waits until stdin ends
//   index_child view DIRECTORY              as a user without rights: says how many rows there are

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "gradstore/error.h"
#include "index/index_samples.h"
#include "index/index_view.h"

namespace gradstore::index {
namespace {

constexpr uid_t kNobody = 65534;

void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

void wait_for_end_of_input() {
  while (std::getchar() != EOF) {
  }
}

void hold(const io::Path& directory) {
  const auto index = Index::open(io::posix_file_system(), directory);
  say("open");
  wait_for_end_of_input();
}

void put(const io::Path& directory, std::uint64_t last, std::size_t num_slices) {
  const auto index = Index::open(io::posix_file_system(), directory);
  const auto layout = sample_layout(num_slices);
  for (std::uint64_t sequence = 1; sequence <= last; ++sequence) {
    put_sample(*index, {1, sequence}, layout);
    say(std::to_string(sequence));
  }
  wait_for_end_of_input();
}

void view(const io::Path& directory) {
  // Root may write anywhere.
  if (geteuid() == 0 && setuid(kNobody) != 0) throw std::runtime_error("setuid failed");
  const auto view = IndexView::open(directory);
  say(std::to_string(view->list().size()));
}

int run(int argc, char** argv) {
  const std::string verb = argc > 2 ? argv[1] : "";
  if (verb == "hold") return hold(argv[2]), EXIT_SUCCESS;
  if (verb == "view") return view(argv[2]), EXIT_SUCCESS;
  if (verb == "put" && argc == 5) {
    return put(argv[2], std::stoull(argv[3]), std::stoull(argv[4])), EXIT_SUCCESS;
  }
  return EXIT_FAILURE;
}

}  // namespace
}  // namespace gradstore::index

int main(int argc, char** argv) {
  try {
    return gradstore::index::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "index_child: %s\n", gradstore::describe(error).c_str());
    return EXIT_FAILURE;
  }
}

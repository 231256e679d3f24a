// grad-inspect: looks into a store without LibTorch, libhdf5, a lock or a write.
#include <csignal>
#include <iostream>

#include "command_line.h"

int main(int argc, char** argv) {
  // A reader that has seen enough (`| head`) ends us quietly, even where SIGPIPE is inherited
  // ignored.
  std::signal(SIGPIPE, SIG_DFL);
  std::ios::sync_with_stdio(false);
  return static_cast<int>(gradstore::inspect::run_command_line(argc, argv, std::cout, std::cerr));
}

// A second process of a test: index_child with these arguments, talked to line by line.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace gradstore::index {

class ChildProcess {
 public:
  explicit ChildProcess(std::vector<std::string> arguments);
  ~ChildProcess();  ///< Kills it if it still runs.
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Its next line; empty when it has ended.
  std::string read_line();
  void kill();   ///< SIGKILL; returns when it is gone.
  int finish();  ///< Closes its input and waits; its exit status, or -1 after a signal.

 private:
  int wait();

  pid_t pid_ = -1;
  int to_child_ = -1;
  int from_child_ = -1;
};

}  // namespace gradstore::index

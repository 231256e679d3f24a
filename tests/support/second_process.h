// The same test once more, from its beginning, in a process of its own: freshly started, so that it
// has none of the threads, locks and memory that a forked child would find in disorder.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>

namespace gradstore::testing {

/// What a SecondProcess is to do; empty in the process that ctest started. A test with a second
/// process begins with `if (role() == "...") ...`.
std::string role();
/// The folder that a SecondProcess was given.
std::filesystem::path given_directory();
/// From a SecondProcess to the test that started it: one line.
void tell(const std::string& line);

class SecondProcess {
 public:
  /// `prepare` runs in the new process before the test does; false: exit status kRefused.
  SecondProcess(const std::string& role, const std::filesystem::path& directory,
                const std::function<bool()>& prepare = {});
  ~SecondProcess();  ///< Kills it if it still runs.
  SecondProcess(const SecondProcess&) = delete;
  SecondProcess& operator=(const SecondProcess&) = delete;

  static constexpr int kRefused = 125;

  pid_t pid() const { return pid_; }
  std::string read_line();  ///< Empty when it, and whoever it has forked, has ended.
  void signal(int number);  ///< Sends it a signal.
  int finish();             ///< Waits; its exit status, or minus the signal that ended it.

 private:
  pid_t pid_ = -1;
  int lines_ = -1;
};

}  // namespace gradstore::testing

#include "support/second_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>

namespace gradstore::testing {

namespace {

constexpr const char* kRole = "GRADSTORE_TEST_ROLE";
constexpr const char* kDirectory = "GRADSTORE_TEST_DIRECTORY";
constexpr const char* kLines = "GRADSTORE_TEST_LINES";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

std::string role() { return environment(kRole); }

std::filesystem::path given_directory() { return environment(kDirectory); }

void tell(const std::string& line) {
  const auto text = line + "\n";
  if (::write(std::stoi(environment(kLines)), text.data(), text.size()) < 0) std::abort();
}

SecondProcess::SecondProcess(const std::string& role, const std::filesystem::path& directory,
                             const std::function<bool()>& prepare) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string filter =
      std::string("--gtest_filter=") + test->test_suite_name() + "." + test->name();
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
  pid_ = ::fork();
  if (pid_ == 0) {
    const int lines = ::dup(ends[1]);  // Not closed by exec.
    ::setenv(kRole, role.c_str(), 1);
    ::setenv(kDirectory, directory.c_str(), 1);
    ::setenv(kLines, std::to_string(lines).c_str(), 1);
    if (prepare && !prepare()) ::_exit(kRefused);
    ::execl("/proc/self/exe", "test", filter.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  ::close(ends[1]);
  lines_ = ends[0];
  if (pid_ < 0) throw std::runtime_error("fork failed");
}

SecondProcess::~SecondProcess() {
  if (pid_ > 0) {
    signal(SIGKILL);
    finish();
  }
  ::close(lines_);
}

std::string SecondProcess::read_line() {
  std::string line;
  for (char c = 0; ::read(lines_, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

void SecondProcess::signal(int number) { ::kill(pid_, number); }

int SecondProcess::finish() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace gradstore::testing

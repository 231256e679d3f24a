#include "index/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

namespace gradstore::index {

ChildProcess::ChildProcess(std::vector<std::string> arguments) {
  std::vector<char*> argv = {const_cast<char*>(GRADSTORE_INDEX_CHILD)};
  for (auto& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);

  int input[2];
  int output[2];
  if (pipe2(input, O_CLOEXEC) != 0 || pipe2(output, O_CLOEXEC) != 0) {
    throw std::runtime_error("pipe2 failed");
  }
  pid_ = fork();
  if (pid_ == 0) {
    dup2(input[0], STDIN_FILENO);
    dup2(output[1], STDOUT_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(input[0]);
  close(output[1]);
  to_child_ = input[1];
  from_child_ = output[0];
  if (pid_ < 0) throw std::runtime_error("fork failed");
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) kill();
  if (to_child_ >= 0) close(to_child_);
  close(from_child_);
}

std::string ChildProcess::read_line() {
  std::string line;
  for (char c = 0; read(from_child_, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

void ChildProcess::kill() {
  ::kill(pid_, SIGKILL);
  wait();
}

int ChildProcess::finish() {
  close(to_child_);
  to_child_ = -1;
  return wait();
}

int ChildProcess::wait() {
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace gradstore::index

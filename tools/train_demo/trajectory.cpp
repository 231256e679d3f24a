#include "trajectory.h"

#include <ATen/core/Tensor.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <span>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "core/digest.h"

namespace train_demo {
namespace {

struct Line {
  std::string kind;
  Position at;
  std::string loss;
  std::string gradients;
  std::string parameters;
};

std::span<const std::byte> bytes_of(const at::Tensor& contiguous) {
  return {static_cast<const std::byte*>(contiguous.const_data_ptr()), contiguous.nbytes()};
}

std::string digest_of(const std::vector<at::Tensor>* tensors) {
  if (tensors == nullptr) return "-";
  gradstore::DigestStream stream;
  for (const at::Tensor& tensor : *tensors) stream.add(bytes_of(tensor.contiguous()));
  return to_string(stream.digest());
}

std::string name_of(Position at) {
  return "step " + std::to_string(at.step) + ", micro-step " + std::to_string(at.micro_step);
}

bool same_point(const Line& a, const Line& b) {
  return a.kind == b.kind && a.at.step == b.at.step && a.at.micro_step == b.at.micro_step;
}

std::vector<Line> read_trajectory(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream) throw std::runtime_error("there is no trajectory " + file.string());
  std::vector<Line> lines;
  for (std::string text; std::getline(stream, text);) {
    Line line;
    std::istringstream fields(text);
    if (!(fields >> line.kind >> line.at.step >> line.at.micro_step >> line.loss >>
          line.gradients >> line.parameters)) {
      throw std::runtime_error(file.string() + " has a line that is not one of a trajectory: \"" +
                               text + "\"");
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string read_bytes(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  if (!stream) throw std::runtime_error("cannot be read: " + file.string());
  return bytes;
}

// Compares one field of two lines and counts it in `compared`; keeps the first difference.
void compare_field(const std::string& what, const std::string& reference,
                   const std::string& resumed, std::uint64_t& compared,
                   std::optional<std::string>& first_difference) {
  if (reference == "-" && resumed == "-") return;
  ++compared;
  if (reference != resumed && !first_difference) {
    first_difference = what + ": " + reference + " without interruption, " + resumed + " resumed";
  }
}

}  // namespace

TrajectoryWriter::TrajectoryWriter(const std::filesystem::path& file)
    : descriptor_(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) {
    throw std::runtime_error("cannot write " + file.string() + ": " +
                             std::generic_category().message(errno));
  }
}

TrajectoryWriter::~TrajectoryWriter() { ::close(descriptor_); }

void TrajectoryWriter::started(Position at, const std::vector<at::Tensor>& gradients,
                               const std::vector<at::Tensor>& parameters) {
  write("started", at, std::nullopt, &gradients, &parameters);
}

void TrajectoryWriter::micro_step(Position at, double loss,
                                  const std::vector<at::Tensor>& gradients) {
  write("micro", at, loss, &gradients, nullptr);
}

void TrajectoryWriter::step(Position at, double loss, const std::vector<at::Tensor>& gradients,
                            const std::vector<at::Tensor>& parameters) {
  write("step", at, loss, &gradients, &parameters);
}

void TrajectoryWriter::finished(Position at, const std::vector<at::Tensor>& parameters) {
  write("finished", at, std::nullopt, nullptr, &parameters);
}

void TrajectoryWriter::write(const std::string& kind, Position at, std::optional<double> loss,
                             const std::vector<at::Tensor>* gradients,
                             const std::vector<at::Tensor>* parameters) {
  char digits[32] = "-";
  if (loss) std::snprintf(digits, sizeof digits, "%.9g", *loss);
  const std::string line = kind + " " + std::to_string(at.step) + " " +
                           std::to_string(at.micro_step) + " " + digits + " " +
                           digest_of(gradients) + " " + digest_of(parameters) + "\n";
  // One write per line: a kill falls between lines.
  if (::write(descriptor_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    throw std::runtime_error("cannot write the trajectory: " +
                             std::generic_category().message(errno));
  }
}

void write_tensors(const std::filesystem::path& file, const std::vector<at::Tensor>& tensors) {
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor contiguous = tensor.contiguous();
    const auto bytes = bytes_of(contiguous);
    stream.write(reinterpret_cast<const char*>(bytes.data()),
                 static_cast<std::streamsize>(bytes.size()));
  }
  stream.close();
  if (!stream) throw std::runtime_error("cannot write " + file.string());
}

// The reference is one process, from the beginning. What the resumed run did before its last start
// is not compared: the work that the kill threw away was done again after it.
Comparison compare_runs(const std::filesystem::path& reference_directory,
                        const std::filesystem::path& resumed_directory) {
  const auto reference = read_trajectory(reference_directory / kTrajectoryFile);
  const auto resumed = read_trajectory(resumed_directory / kTrajectoryFile);
  const auto is_start = [](const Line& line) { return line.kind == "started"; };

  if (std::count_if(reference.begin(), reference.end(), is_start) != 1) {
    throw std::runtime_error("the reference run was not made in one go, so it proves nothing");
  }
  const auto last_start = std::find_if(resumed.rbegin(), resumed.rend(), is_start);
  if (last_start == resumed.rend() ||
      (last_start->at.step == 0 && last_start->at.micro_step == 0)) {
    throw std::runtime_error("the interrupted run began at the beginning, so nothing was resumed");
  }
  if (reference.back().kind != "finished") {
    throw std::runtime_error("the reference run did not finish");
  }
  if (resumed.back().kind != "finished") {
    throw std::runtime_error("the interrupted run was not brought to its end");
  }

  Comparison comparison;
  comparison.resumed_at = last_start->at;
  auto& difference = comparison.first_difference;

  // What was restored: the gradients as they were after that micro-step, and the parameters as the
  // optimizer had left them last.
  auto expected = reference.begin();
  std::string expected_parameters = expected->parameters;
  while (expected != reference.end() &&
         !(expected->kind == "micro" && expected->at.step == last_start->at.step &&
           expected->at.micro_step == last_start->at.micro_step)) {
    if (expected->kind == "step") expected_parameters = expected->parameters;
    ++expected;
  }
  if (expected == reference.end()) {
    throw std::runtime_error("the reference run never was at " + name_of(last_start->at));
  }
  compare_field("gradients after the restore", expected->gradients, last_start->gradients,
                comparison.gradient_digests, difference);
  compare_field("parameters after the restore", expected_parameters, last_start->parameters,
                comparison.parameter_digests, difference);
  ++expected;

  // What came after.
  auto actual = last_start.base();
  for (; expected != reference.end() && actual != resumed.end(); ++expected, ++actual) {
    if (!same_point(*expected, *actual)) {
      throw std::runtime_error("the runs took other steps: " + expected->kind + " at " +
                               name_of(expected->at) + " without interruption, " + actual->kind +
                               " at " + name_of(actual->at) + " resumed");
    }
    const std::string where =
        (expected->kind == "step" ? "optimizer at " : "") + name_of(expected->at);
    compare_field("loss, " + where, expected->loss, actual->loss, comparison.losses, difference);
    compare_field("gradients, " + where, expected->gradients, actual->gradients,
                  comparison.gradient_digests, difference);
    compare_field("parameters, " + where, expected->parameters, actual->parameters,
                  comparison.parameter_digests, difference);
  }
  if (expected != reference.end() || actual != resumed.end()) {
    throw std::runtime_error("one run went on longer than the other");
  }

  const std::string final_parameters = read_bytes(reference_directory / kParametersFile);
  comparison.parameter_bytes = final_parameters.size();
  if (final_parameters != read_bytes(resumed_directory / kParametersFile) && !difference) {
    difference = "bytes of the final parameters";
  }
  if (comparison.gradient_digests < 2 || comparison.parameter_digests < 2 ||
      comparison.parameter_bytes == 0) {
    throw std::runtime_error("the interrupted run had nothing left to do, so nothing was compared");
  }
  return comparison;
}

}  // namespace train_demo

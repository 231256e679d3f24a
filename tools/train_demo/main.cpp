// gradstore-train-demo: one run of the demo's training, or the comparison of two runs.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "gradstore/error.h"
#include "training_loop.h"
#include "trajectory.h"

namespace {

constexpr int kIdentical = 0;
constexpr int kDifferent = 1;
constexpr int kTrouble = 2;

// Says what was found. The answer is what the comparison returned, nothing else.
int print_comparison(const train_demo::Comparison& comparison) {
  const bool identical = !comparison.first_difference.has_value();
  std::printf("bit-identical: %s\n", identical ? "yes" : "no");
  std::printf(
      "  compared from step %llu, micro-step %u: %llu gradient digests, %llu parameter digests, "
      "%llu losses and %.1f MB of final parameters\n",
      static_cast<unsigned long long>(comparison.resumed_at.step), comparison.resumed_at.micro_step,
      static_cast<unsigned long long>(comparison.gradient_digests),
      static_cast<unsigned long long>(comparison.parameter_digests),
      static_cast<unsigned long long>(comparison.losses),
      static_cast<double>(comparison.parameter_bytes) / 1e6);
  if (!identical) std::printf("  first difference: %s\n", comparison.first_difference->c_str());
  return identical ? kIdentical : kDifferent;
}

}  // namespace

int main(int argc, char** argv) {
  using train_demo::LeaveOut;
  train_demo::TrainingOptions options;
  std::vector<std::string> compared;

  CLI::App app(
      "Trains a small character transformer with snapshots in DIR/store. Started again with the "
      "same\n"
      "DIR, it goes on from the newest snapshot.");
  app.add_option("dir", options.directory, "directory of the run; made if there is none");
  app.add_option("--text", options.text, "file to train on")
      ->default_val("/usr/share/common-licenses/GPL-3");
  app.add_option("--steps", options.steps, "optimizer steps, of 8 micro-steps each")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--compare", compared,
                 "compare what the second run did since it resumed with what the first one did;\n"
                 "exit status 0: equal bit for bit, 1: different, 2: nothing could be compared")
      ->expected(2)
      ->type_name("UNINTERRUPTED RESUMED");
  app.add_option("--break-resume", options.leave_out,
                 "for tests: forget a part of what was restored: gradients, rng or optimizer")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, LeaveOut>{{"gradients", LeaveOut::gradients},
                                          {"rng", LeaveOut::rng},
                                          {"optimizer", LeaveOut::optimizer}}))
      ->group("");  // Not in --help.
  try {
    app.parse(argc, argv);
    if (options.directory.empty() == compared.empty()) {
      throw CLI::ValidationError("give either DIR or --compare");
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kTrouble;
  }

  try {
    if (!compared.empty())
      return print_comparison(train_demo::compare_runs(compared[0], compared[1]));
    train_demo::train(options);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gradstore-train-demo: %s\n", gradstore::describe(error).c_str());
    return kTrouble;
  }
}

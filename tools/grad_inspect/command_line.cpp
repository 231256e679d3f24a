#include "command_line.h"

#include <CLI/CLI.hpp>
#include <map>
#include <ostream>

#include "gradstore/error.h"
#include "human_text.h"

namespace gradstore::inspect {

namespace {

constexpr const char* kAddressHelp = "STORE[@SELECTOR], see grad-inspect --help";

constexpr const char* kOverview = R"(Addresses:
  STORE[@SELECTOR], SELECTOR being KEY=VALUE,...
    snapshot=0002-00000042     one snapshot
    step=7  step=latest  step=100..200:10     attempt=, micro=, rank=, group=: likewise
    stage=pre_reduce|post_reduce|unscaled|clipped
    param=GLOB                 * ? [0-9] [!x], \, for a comma, \x1b for that byte
  Without a selector: the newest snapshot of all ranks. Both ends of a range belong to it.

Exit status:
  0  fine           1  findings         2  usage error or trouble
  3  the store is damaged or not fully readable         4  nothing selected

Examples:
  grad-inspect info run/grads
  grad-inspect ls run/grads --snapshots
  grad-inspect ls run/grads@step=120 -l --sort norm
  grad-inspect show 'run/grads@param=layers.0.*' --values 0:16
  grad-inspect verify run/grads --json | jq .damage

Looks only: takes no lock, writes nothing, works beside a running job and on read-only media.)";

constexpr const char* kInfoExamples = R"(Examples:
  grad-inspect info run/grads
  grad-inspect info run/grads@attempt=2 --json | jq .last_durable.step)";

constexpr const char* kLsExamples = R"(Examples:
  grad-inspect ls run/grads                         params of the newest snapshot
  grad-inspect ls run/grads@step=120 -l             its slices, with statistics
  grad-inspect ls 'run/grads@param=*.bias' -l --sort norm
  grad-inspect ls run/grads --snapshots             which snapshots there are

Only the index is read. A param without gradient is shown as absent, not as zeros.)";

constexpr const char* kShowExamples = R"(Examples:
  grad-inspect show run/grads@snapshot=0001-00000007 --manifest
  grad-inspect show run/grads@param=embed.weight
  grad-inspect show run/grads@param=embed.weight --slice 0 --values 0:64

Statistics come from the index; values are read from the file and checked by its digest.)";

constexpr const char* kVerifyExamples = R"(Examples:
  grad-inspect verify run/grads
  grad-inspect verify run/grads@snapshot=0001-00000007
  grad-inspect verify run/grads@step=100..200,rank=0 --json

Reads every byte, and repairs nothing. Exit status 3: damage; 1: only files left over.)";

const std::map<std::string, ColourChoice> kColourChoices{{"auto", ColourChoice::automatic},
                                                         {"always", ColourChoice::always},
                                                         {"never", ColourChoice::never}};

const std::map<std::string, SortKey> kSortKeys{
    {"layout", SortKey::layout}, {"name", SortKey::name}, {"elements", SortKey::elements},
    {"bytes", SortKey::bytes},   {"norm", SortKey::norm}, {"absmax", SortKey::absmax},
    {"nan", SortKey::nan},       {"inf", SortKey::inf},   {"zero", SortKey::zero}};

// CLI11's own check lists the enumerators' numbers beside the names.
template <typename T>
CLI::Option* add_choice(CLI::App& app, const std::string& flag, T& target,
                        const std::map<std::string, T>& choices, const std::string& help) {
  std::string names;
  for (const auto& [name, value] : choices) names.append(names.empty() ? "" : ", ").append(name);
  return app
      .add_option_function<std::string>(
          flag,
          [&target, &choices, flag, names](const std::string& name) {
            const auto found = choices.find(name);
            if (found == choices.end()) {
              throw CLI::ValidationError(flag, name + " is none of " + names);
            }
            target = found->second;
          },
          help + ": " + names)
      ->type_name("WHICH");
}

struct CommandLine {
  InfoOptions info;
  LsOptions ls;
  ShowOptions show;
  VerifyOptions verify;
  bool json = false;
  bool quiet = false;
  ColourChoice colour = ColourChoice::automatic;
};

CLI::App* add_command(CLI::App& app, CommandLine& line, const std::string& name,
                      const std::string& what, std::string& address, const char* examples) {
  auto* command = app.add_subcommand(name, what);
  command->add_option("STORE", address, kAddressHelp)->required()->type_name("");
  command->add_flag("--json", line.json, "One JSON document instead of text");
  command->add_flag("-q,--quiet", line.quiet, "No progress, no summary");
  add_choice(*command, "--color", line.colour, kColourChoices, "Colours");
  command->footer(examples);
  return command;
}

void define(CLI::App& app, CommandLine& line) {
  app.require_subcommand(1);
  app.get_formatter()->label("REQUIRED", "");
  app.footer(kOverview);
  app.set_version_flag("--version", "grad-inspect " GRADSTORE_VERSION);
  app.failure_message([](const CLI::App* of, const CLI::Error& error) {
    const auto name = of->get_subcommands().empty()
                          ? std::string()
                          : " " + of->get_subcommands().front()->get_name();
    return "grad-inspect: " + visible_lines(error.what()) + "\nTry: grad-inspect" + name +
           " --help\n";
  });

  add_command(app, line, "info", "What a store holds, and who is writing it", line.info.address,
              kInfoExamples);

  auto* ls = add_command(app, line, "ls", "Groups, params and slices of a snapshot",
                         line.ls.address, kLsExamples);
  ls->add_flag("-l,--long", line.ls.long_form,
               "Each slice, with dtype, shape, range and statistics");
  add_choice(*ls, "--sort", line.ls.sort, kSortKeys, "Greatest first, but names from a to z");
  ls->add_flag("--snapshots", line.ls.snapshots, "List snapshots instead");

  auto* show = add_command(app, line, "show", "All that is known of a snapshot's params",
                           line.show.address, kShowExamples);
  show->add_option("--values", line.show.values, "Print elements A to B of each slice")
      ->type_name("A:B");
  show->add_option("--slice", line.show.slice, "Only this slice of each param")->type_name("N");
  show->add_flag("--manifest", line.show.manifest, "Print the manifest in the file");
  show->add_option("--limit", line.show.limit, "Most slices shown; 0: all")
      ->type_name("N")
      ->capture_default_str();

  add_command(app, line, "verify", "Check every byte of a store's snapshots", line.verify.address,
              kVerifyExamples);
}

ExitStatus run_command(const CLI::App& app, const CommandLine& line, const Output& output) {
  if (app.got_subcommand("info")) return info(line.info, output);
  if (app.got_subcommand("ls")) {
    return line.ls.snapshots ? ls_snapshots(line.ls, output) : ls(line.ls, output);
  }
  if (app.got_subcommand("show")) return show(line.show, output);
  return verify(line.verify, output);
}

ExitStatus status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::not_found: return ExitStatus::nothing;
    case ErrorCode::corrupt: return ExitStatus::damaged;
    case ErrorCode::io: return ExitStatus::damaged;  // Not fully readable.
    case ErrorCode::invalid_argument:
    case ErrorCode::already_exists:
    case ErrorCode::incompatible:
    case ErrorCode::busy:
    case ErrorCode::internal: return ExitStatus::trouble;
  }
  return ExitStatus::trouble;
}

}  // namespace

ExitStatus run_command_line(int argc, const char* const* argv, std::ostream& out,
                            std::ostream& err) {
  try {
    CLI::App app("Looks into a gradstore store: gradients of a training run on disk.",
                 "grad-inspect");
    CommandLine line;
    define(app, line);
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return app.exit(error, out, err) == 0 ? ExitStatus::fine : ExitStatus::trouble;
    }
    const auto status =
        run_command(app, line, {out, err, style_for_stdout(line.colour), line.json, line.quiet});
    out.flush();
    if (!out) {
      err << "grad-inspect: the output could not be written\n";
      return ExitStatus::trouble;
    }
    return status;
  } catch (const Error& error) {
    out.flush();
    err << "grad-inspect: " << visible_lines(describe(error)) << '\n';
    return status_of(error.code());
  } catch (const std::exception& error) {
    err << "grad-inspect: " << visible_lines(describe(error)) << '\n';
    return ExitStatus::trouble;
  }
}

}  // namespace gradstore::inspect

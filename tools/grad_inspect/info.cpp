#include <algorithm>
#include <map>
#include <set>

#include "commands.h"
#include "human_text.h"
#include "selection.h"
#include "table.h"

namespace gradstore::inspect {

namespace {

struct DiskUse {
  std::uint64_t gradients = 0;
  std::uint64_t state = 0;
  std::uint64_t index = 0;
  std::uint64_t unfinished_files = 0;  ///< Temporary files.
  std::uint64_t total() const { return gradients + state + index; }
};

// Files may come and go while we look.
std::uint64_t bytes_in(const io::Path& folder, std::uint64_t* temporaries = nullptr) {
  const auto files = io::posix_file_system();
  if (!files->status(folder)) return 0;
  std::uint64_t bytes = 0;
  for (const auto& name : files->list(folder)) {
    const auto status = files->status(folder / name);
    if (!status || status->is_directory) continue;
    bytes += status->length;
    if (temporaries != nullptr && name.ends_with(".tmp")) ++*temporaries;
  }
  return bytes;
}

// What the newest committed snapshot holds, all ranks together.
struct Contents {
  std::set<std::int64_t> groups;
  std::map<std::string, Presence> params;
  std::uint64_t slices = 0;
  std::map<DType, std::uint64_t> dtypes;  // Slices.
  std::uint64_t absent() const {
    return static_cast<std::uint64_t>(std::ranges::count_if(
        params, [](const auto& param) { return param.second != Presence::captured; }));
  }
};

struct Facts {
  std::map<SnapshotState, std::uint64_t> states{{SnapshotState::committed, 0},
                                                {SnapshotState::damaged, 0}};
  std::set<std::uint64_t> attempts;
  std::set<std::uint64_t> steps;
  std::set<Stage> stages;
  std::uint32_t world_size = 0;
  std::vector<Selected> last;  // The newest committed snapshot, on each rank that has it.
  Contents contents;
  std::string contents_failure;  // Why the contents are not known; empty: they are.
  DiskUse disk;
  bool written_now = false;
  bool writer_unknown = false;  // On some rank.
};

void add_contents(Contents& contents, const Layout& layout) {
  for (const auto& group : layout.groups) contents.groups.insert(group.id);
  for (const auto& param : layout.params) {
    auto& presence = contents.params.try_emplace(param.name, param.presence).first->second;
    if (param.presence == Presence::captured) presence = Presence::captured;
  }
  contents.slices += layout.slices.size();
  for (const auto& slice : layout.slices) ++contents.dtypes[slice.dtype];
}

Facts gather(OpenStore& store, const Selector& selector) {
  Facts facts;
  for (auto& s : select(store, selector)) {
    const auto& snapshot = s.row.info;
    ++facts.states[snapshot.state];
    facts.attempts.insert(snapshot.id.attempt);
    facts.steps.insert(snapshot.metadata.step);
    facts.stages.insert(snapshot.metadata.stage);
    facts.world_size = snapshot.world_size;
    if (snapshot.state != SnapshotState::committed) continue;
    if (!facts.last.empty() && facts.last.front().row.info.id != snapshot.id) facts.last.clear();
    facts.last.push_back(s);
  }
  try {
    for (const auto& s : facts.last) {
      add_contents(facts.contents, s.rank->view->index().layout(s.row.layout_digest));
    }
  } catch (const Error& error) {
    facts.contents_failure = describe(error);
  }
  for (const auto& rank : store.ranks) {
    facts.disk.gradients += bytes_in(rank.paths.snapshots(), &facts.disk.unfinished_files);
    facts.disk.state += bytes_in(rank.paths.state(), &facts.disk.unfinished_files);
    facts.disk.index += bytes_in(rank.paths.index());
    facts.written_now = facts.written_now || rank.writer.has_value();
    facts.writer_unknown = facts.writer_unknown || !rank.writer_unknown.empty();
  }
  return facts;
}

Json range_json(const std::set<std::uint64_t>& numbers) {
  if (numbers.empty()) return nullptr;
  return {{"first", *numbers.begin()}, {"last", *numbers.rbegin()}};
}

std::string range_text(const std::set<std::uint64_t>& numbers) {
  if (numbers.empty()) return "none";
  const auto first = std::to_string(*numbers.begin());
  if (numbers.size() == 1) return first;
  return first + ".." + std::to_string(*numbers.rbegin()) + " (" + with_thousands(numbers.size()) +
         " of them)";
}

Json ranks_json(const OpenStore& store) {
  Json ranks = Json::array();
  for (const auto& rank : store.ranks) {
    Json json;
    json["rank"] = rank.rank;
    json["open_for_writing"] =
        rank.writer_unknown.empty() ? Json(rank.writer.has_value()) : Json(nullptr);
    json["writer_pid"] =
        rank.writer && rank.writer->pid > 0 ? Json(rank.writer->pid) : Json(nullptr);
    json["snapshots"] = rank.rows.size();
    json["unreadable"] = rank.failure ? Json(text(rank.failure->what())) : Json(nullptr);
    ranks.push_back(std::move(json));
  }
  return ranks;
}

void print_json(const OpenStore& store, const Facts& facts, const Output& output) {
  auto json = document("info");
  json["store"] = store.json();
  json["open_for_writing"] =
      facts.writer_unknown && !facts.written_now ? Json(nullptr) : Json(facts.written_now);
  json["world_size"] = facts.world_size;
  json["ranks"] = ranks_json(store);
  Json states;
  for (const auto& [state, count] : facts.states) states[std::string(name_of(state))] = count;
  json["snapshots"] = states;
  json["last_durable"] = nullptr;
  if (!facts.last.empty()) {
    const auto& row = facts.last.front().row;
    json["last_durable"] = snapshot_json(row);
    json["last_durable"]["committed_by_ranks"] = facts.last.size();
    json["last_durable"]["age_seconds"] =
        static_cast<double>(unix_now_ns() - row.info.created_unix_ns) / 1e9;
  }
  json["attempts"] = range_json(facts.attempts);
  json["steps"] = range_json(facts.steps);
  json["stages"] = Json::array();
  for (const auto stage : facts.stages) json["stages"].push_back(name_of(stage));
  if (!facts.contents_failure.empty()) json["contents_unreadable"] = text(facts.contents_failure);
  json["groups"] = facts.contents.groups.size();
  json["params"] = facts.contents.params.size();
  json["params_without_gradient"] = facts.contents.absent();
  json["slices"] = facts.contents.slices;
  json["slices_by_dtype"] = Json::object();
  for (const auto& [dtype, count] : facts.contents.dtypes) {
    json["slices_by_dtype"][std::string(name_of(dtype))] = count;
  }
  json["bytes_on_disk"] = {{"total", facts.disk.total()},
                           {"gradients", facts.disk.gradients},
                           {"state", facts.disk.state},
                           {"index", facts.disk.index}};
  json["unfinished_files"] = facts.disk.unfinished_files;
  print(output.out, json);
}

Cell writer_cell(const OpenStore& store, const Facts& facts) {
  for (const auto& rank : store.ranks) {
    if (!rank.writer_unknown.empty()) {
      return {"unknown: " + visible_text(rank.writer_unknown), Look::warning};
    }
  }
  if (!facts.written_now) return {"none: no process has it open for writing"};
  std::string who;
  for (const auto& rank : store.ranks) {
    if (!rank.writer) continue;
    if (!who.empty()) who += ", ";
    who += rank.writer->pid > 0 ? "process " + std::to_string(rank.writer->pid)
                                : "a process that cannot be seen from here";
    if (store.ranks.size() > 1) who += " (rank " + std::to_string(rank.rank) + ")";
  }
  return {who + (store.ranks.size() == 1 ? " has it open for writing" : ""), Look::good};
}

Cell snapshots_cell(const Facts& facts) {
  std::string line;
  for (const auto& [state, count] : facts.states) {
    if (count == 0 && state != SnapshotState::committed) continue;
    if (!line.empty()) line += ", ";
    line += with_thousands(count) + " " +
            (state == SnapshotState::data_gone ? "with data gone" : std::string(name_of(state)));
  }
  const bool damaged = facts.states.at(SnapshotState::damaged) > 0;
  return {line, damaged ? Look::bad : Look::plain};
}

void add_last(FactList& list, const Facts& facts) {
  if (facts.last.empty()) {
    list.add("last durable", {"none", Look::warning});
    return;
  }
  const auto& last = facts.last.front().row.info;
  list.add("last durable", {to_string(last.id) + ": " + place_in_training(last.metadata)});
  auto when = utc_time(last.created_unix_ns) + " UTC";
  if (const auto age = unix_now_ns() - last.created_unix_ns; age >= 0) {
    when += ", " + duration_text(age) + " ago";
  }
  if (last.world_size > 1) {
    when += "; committed by " + std::to_string(facts.last.size()) + " of " +
            plural(last.world_size, "rank");
  }
  list.add("", {when});
}

std::string stages_text(const std::set<Stage>& stages) {
  std::string all;
  for (const auto stage : stages) all += (all.empty() ? "" : ", ") + std::string(name_of(stage));
  return all.empty() ? "none" : all;
}

std::string dtypes_text(const Contents& contents) {
  std::string all;
  for (const auto& [dtype, count] : contents.dtypes) {
    all += (all.empty() ? "" : ", ") + std::string(name_of(dtype)) + " (" + plural(count, "slice") +
           ")";
  }
  return all.empty() ? "none" : all;
}

std::string disk_text(const DiskUse& disk) {
  return human_bytes(disk.total()) + ": gradients " + human_bytes(disk.gradients) +
         ", companion state " + human_bytes(disk.state) + ", index " + human_bytes(disk.index);
}

void print_text(const OpenStore& store, const Facts& facts, const Output& output) {
  output.out << output.style.apply(Look::heading, visible_text(store.view.directory().string()))
             << '\n';
  FactList list;
  const auto json = store.json();
  const auto run = visible_text(store.view.info().run_name);
  list.add("run", run.empty() ? Cell{"(no name)", Look::dim} : Cell{run});
  list.add("uuid", {archive::to_text(store.view.info().uuid)});
  list.add("format",
           {"gradstore directory, version " + std::to_string(json["format_version"].get<int>())});
  list.add("writer", writer_cell(store, facts));
  if (facts.disk.unfinished_files > 0) {
    const auto files = plural(facts.disk.unfinished_files, "file");
    list.add("unfinished", facts.written_now || facts.writer_unknown
                               ? Cell{files + " being written"}
                               : Cell{files + " of a writer that died; the next open removes them",
                                      Look::warning});
  }
  list.add("snapshots", snapshots_cell(facts));
  add_last(list, facts);
  list.add("attempts", {range_text(facts.attempts)});
  list.add("steps", {range_text(facts.steps)});
  list.add("stages", {stages_text(facts.stages)});
  list.add("ranks", {std::to_string(store.ranks.size()) + " here" +
                     (facts.world_size == 0 ? std::string()
                                            : ", world size " + std::to_string(facts.world_size))});
  if (!facts.last.empty() && facts.contents_failure.empty()) {
    const auto absent = facts.contents.absent();
    list.add("groups", {with_thousands(facts.contents.groups.size())});
    list.add("params", {with_thousands(facts.contents.params.size()) +
                        (absent > 0 ? ", of which " + with_thousands(absent) + " without gradient"
                                    : std::string())});
    list.add("slices", {with_thousands(facts.contents.slices)});
    list.add("dtypes", {dtypes_text(facts.contents)});
  }
  list.add("on disk", {disk_text(facts.disk)});
  list.print(output.out, output.style, 2);
}

}  // namespace

ExitStatus info(const InfoOptions& options, const Output& output) {
  const auto address = parse_address(options.address);
  refuse_part_keys(address, "info");
  auto store = open_store(address);
  const auto facts = gather(store, address.selector);
  const bool unreadable = report_unreadable_ranks(store, output.err);
  if (output.json) {
    print_json(store, facts, output);
  } else {
    print_text(store, facts, output);
  }
  if (!facts.contents_failure.empty()) {
    output.err << "grad-inspect: " << visible_lines(facts.contents_failure) << '\n';
  }
  const bool damaged =
      unreadable || !facts.contents_failure.empty() || facts.states.at(SnapshotState::damaged) > 0;
  return damaged ? ExitStatus::damaged : ExitStatus::fine;
}

}  // namespace gradstore::inspect

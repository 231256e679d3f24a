#include "selection.h"

#include <algorithm>
#include <map>
#include <set>

#include "human_text.h"

namespace gradstore::inspect {

namespace {

// read_store() accepts this version alone and names any other in its error.
constexpr int kDirectoryFormat = 1;

bool holds_files(const archive::RankPaths& paths) {
  const auto files = io::posix_file_system();
  for (const auto& folder : {paths.snapshots(), paths.state()}) {
    if (files->status(folder) && !files->list(folder).empty()) return true;
  }
  return false;
}

void open_index(const archive::StoreView& store, OpenRank& rank) {
  try {
    rank.view = std::make_unique<archive::RankView>(store.open_rank(rank.rank));
    rank.rows = rank.view->list();
  } catch (const Error& error) {
    rank.view = nullptr;
    if (error.code() != ErrorCode::not_found) {
      rank.failure = Error(error.code(), describe(error));
    } else if (holds_files(rank.paths)) {
      rank.failure = Error(ErrorCode::corrupt, rank.paths.root.string() +
                                                   ": there are snapshot files but no index; "
                                                   "`grad-inspect verify` checks the files");
    }  // Else its writer has only just begun.
  }
}

bool has_data(const index::SnapshotRow& row) {
  return row.info.state == SnapshotState::committed || row.info.state == SnapshotState::damaged;
}

bool matches(const index::SnapshotRow& row, const Selector& selector) {
  const auto& info = row.info;
  const auto allows = [](const std::optional<NumberRange>& range, std::uint64_t number) {
    return !range || range->contains(number);
  };
  return info.state != SnapshotState::deleting && allows(selector.attempt, info.id.attempt) &&
         allows(selector.step, info.metadata.step) &&
         allows(selector.micro, info.metadata.micro_step) &&
         (!selector.stage || *selector.stage == info.metadata.stage) &&
         (!selector.snapshot || *selector.snapshot == info.id);
}

std::string range_text(const std::set<std::uint64_t>& numbers) {
  if (numbers.size() == 1) return std::to_string(*numbers.begin());
  return std::to_string(*numbers.begin()) + ".." + std::to_string(*numbers.rbegin());
}

}  // namespace

Json OpenStore::json() const {
  return {{"path", text(view.directory().string())},
          {"uuid", archive::to_text(view.info().uuid)},
          {"run_name", text(view.info().run_name)},
          {"format_version", kDirectoryFormat}};
}

OpenStore open_store(const Address& address) {
  auto view = [&] {
    try {
      return archive::StoreView(address.store);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::not_found) throw;
      throw Error(ErrorCode::invalid_argument, error.what());  // Not an empty answer: a wrong path.
    }
  }();
  const auto ranks = view.ranks();
  OpenStore store{std::move(view), {}};
  for (const auto rank : ranks) {
    if (address.selector.rank && !address.selector.rank->contains(std::uint64_t{rank})) continue;
    OpenRank open;
    open.rank = rank;
    open.paths = archive::rank_paths(store.view.directory(), rank);
    try {
      open.writer = find_writer(open.paths.lock());
    } catch (const Error& error) {
      open.writer_unknown = error.what();  // Everything else can still be looked at.
    }
    open_index(store.view, open);
    store.ranks.push_back(std::move(open));
  }
  if (store.ranks.empty() && address.selector.rank) {
    throw Error(ErrorCode::not_found,
                address.store + ": no such rank" +
                    (ranks.empty() ? ": nothing has been written yet"
                                   : "; ranks: " + range_text({ranks.begin(), ranks.end()})));
  }
  return store;
}

bool report_unreadable_ranks(const OpenStore& store, std::ostream& err) {
  bool any = false;
  for (const auto& rank : store.ranks) {
    if (!rank.failure) continue;
    err << "grad-inspect: rank " << rank.rank
        << " cannot be read: " << visible_lines(rank.failure->what()) << '\n';
    any = true;
  }
  return any;
}

std::vector<Selected> select(OpenStore& store, const Selector& selector) {
  std::vector<Selected> selected;
  for (auto& rank : store.ranks) {
    for (const auto& row : rank.rows) {
      if (matches(row, selector)) selected.push_back({&rank, row});
    }
  }
  std::ranges::stable_sort(selected, {}, [](const Selected& s) { return s.row.info.id; });
  if (selector.latest_step && !selected.empty()) {
    const auto latest = selected.back().row.info.metadata.step;
    std::erase_if(selected,
                  [latest](const Selected& s) { return s.row.info.metadata.step != latest; });
  }
  return selected;
}

Newest select_newest(OpenStore& store, const Address& address) {
  const auto selected = select(store, address.selector);
  if (selected.empty()) refuse_empty_selection(store, address);
  const auto with_data = std::ranges::find_if(selected.rbegin(), selected.rend(),
                                              [](const Selected& s) { return has_data(s.row); });
  const auto id = (with_data == selected.rend() ? selected.back() : *with_data).row.info.id;

  Newest newest;
  std::set<SnapshotId> others;
  for (const auto& s : selected) {
    if (s.row.info.id == id) {
      newest.ranks.push_back(s);
    } else {
      others.insert(s.row.info.id);
    }
  }
  newest.others = others.size();
  return newest;
}

void refuse_part_keys(const Address& address, const std::string& command) {
  if (!address.selector.group && !address.selector.param) return;
  throw Error(ErrorCode::invalid_argument, command + " looks at whole snapshots: " +
                                               (address.selector.group ? "group=" : "param=") +
                                               " does not apply; `ls` and `show` take it");
}

void refuse_empty_selection(const OpenStore& store, const Address& address) {
  std::set<std::uint64_t> attempts;
  std::set<std::uint64_t> steps;
  for (const auto& rank : store.ranks) {
    // What cannot be read may hold what was asked for: that is damage, not an empty answer.
    if (rank.failure) throw *rank.failure;
    for (const auto& row : rank.rows) {
      attempts.insert(row.info.id.attempt);
      steps.insert(row.info.metadata.step);
    }
  }
  if (steps.empty()) throw Error(ErrorCode::not_found, address.store + " holds no snapshot yet");
  throw Error(ErrorCode::not_found,
              "No snapshot matches " + address.selector.text + "; there are steps " +
                  range_text(steps) + " of attempts " + range_text(attempts) +
                  ", see `grad-inspect ls --snapshots " + address.store + "`");
}

std::string place_in_training(const SnapshotMetadata& metadata) {
  return "step " + std::to_string(metadata.step) + ", micro-step " +
         std::to_string(metadata.micro_step) + " of " +
         std::to_string(metadata.accumulation_steps) + ", " + std::string(name_of(metadata.stage));
}

void print_heading(std::ostream& out, const Style& style, const Newest& newest,
                   const Address& address) {
  const auto& info = newest.ranks.front().row.info;
  out << style.apply(Look::heading, "snapshot " + to_string(info.id)) << "  "
      << place_in_training(info.metadata) << "  "
      << style.apply(Look::dim, utc_time(info.created_unix_ns) + " UTC") << '\n';

  std::map<SnapshotState, std::vector<std::uint32_t>> by_state;
  for (const auto& s : newest.ranks) by_state[s.row.info.state].push_back(s.rank->rank);
  for (const auto& [state, ranks] : by_state) {
    std::string where;
    if (newest.ranks.size() > 1) {
      where = " on rank";
      for (const auto rank : ranks) where.append(" ").append(std::to_string(rank));
    }
    if (state == SnapshotState::damaged) {
      out << style.apply(Look::bad, "damaged" + where) << ": a file is missing or cut short; see "
          << "`grad-inspect verify " << visible_text(address.store) << "`\n";
    } else if (state == SnapshotState::data_gone) {
      out << style.apply(Look::warning, "data gone" + where)
          << ": its files were removed by retention, its statistics remain\n";
    }
  }
  if (newest.others > 0 && address.selector.names_snapshots()) {
    out << style.apply(Look::dim, "the newest of " + std::to_string(newest.others + 1) +
                                      " that match; `ls --snapshots` lists them")
        << '\n';
  }
}

}  // namespace gradstore::inspect

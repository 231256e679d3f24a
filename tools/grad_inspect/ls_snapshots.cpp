#include "commands.h"
#include "human_text.h"
#include "selection.h"
#include "table.h"

namespace gradstore::inspect {

namespace {

Cell status_cell(SnapshotState state) {
  switch (state) {
    case SnapshotState::committed: return {"committed"};
    case SnapshotState::deleting: return {"being removed", Look::dim};
    case SnapshotState::data_gone: return {"data gone", Look::dim};
    case SnapshotState::damaged: return {"DAMAGED", Look::bad};
  }
  return {"invalid", Look::bad};
}

std::string companion_text(const SnapshotInfo& info) {
  if (!info.state_id) return "";
  if (*info.state_id != info.id) return "of " + to_string(*info.state_id);
  return human_bytes(info.state_file_bytes);
}

}  // namespace

ExitStatus ls_snapshots(const LsOptions& options, const Output& output) {
  if (options.long_form || options.sort != SortKey::layout) {
    throw Error(ErrorCode::invalid_argument,
                "--snapshots lists snapshots, by id: --long and --sort do not apply");
  }
  const auto address = parse_address(options.address);
  refuse_part_keys(address, "ls --snapshots");
  auto store = open_store(address);
  bool damaged = report_unreadable_ranks(store, output.err);
  const auto selected = select(store, address.selector);
  if (selected.empty()) refuse_empty_selection(store, address);

  std::uint64_t bytes = 0;
  constexpr auto right = Table::Align::right;
  Table table({{"SNAPSHOT"},
               {"RANK", right},
               {"STEP", right},
               {"MICRO", right},
               {"STAGE"},
               {"STATUS"},
               {"GRADIENTS", right},
               {"COMPANION", right},
               {"CREATED (UTC)"},
               {"NOTE"}});
  auto rows = Json::array();
  for (const auto& [rank, row] : selected) {
    const auto& info = row.info;
    damaged = damaged || info.state == SnapshotState::damaged;
    const bool has_data =
        info.state == SnapshotState::committed || info.state == SnapshotState::damaged;
    if (has_data) bytes += info.file_bytes + (info.state_id == info.id ? info.state_file_bytes : 0);
    rows.push_back(snapshot_json(row));
    table.add({{to_string(info.id)},
               {store.ranks.size() > 1 ? std::to_string(info.rank) : ""},
               {std::to_string(info.metadata.step)},
               {std::to_string(info.metadata.micro_step) + "/" +
                std::to_string(info.metadata.accumulation_steps)},
               {std::string(name_of(info.metadata.stage))},
               status_cell(info.state),
               {has_data ? human_bytes(info.file_bytes) : ""},
               {has_data ? companion_text(info) : ""},
               {utc_time(info.created_unix_ns)},
               {info.pinned ? "pinned" : ""}});
  }
  if (output.json) {
    auto json = document("ls --snapshots");
    json["store"] = store.json();
    json["snapshots"] = std::move(rows);
    print(output.out, json);
  } else {
    table.print(output.out, output.style);
    output.out << '\n'
               << output.style.apply(
                      Look::dim, plural(selected.size(), "snapshot") + ", " + human_bytes(bytes))
               << '\n';
  }
  return damaged ? ExitStatus::damaged : ExitStatus::fine;
}

}  // namespace gradstore::inspect

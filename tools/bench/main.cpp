// Times snapshots against what the machine can do at best, in one run, rounds interleaved.
//
//   gradstore-bench [--workload gpt2|big|small] [--rounds N] [--dir DIR]
//
// stall:    what training waits for in snapshot(); its limit is a two-thread memcpy of as many
// bytes durable:  from the call of snapshot() to a committed row: copy, digests, statistics, write,
// fsync,
//           index; its limit is the fastest bare O_DIRECT write with fsync (extending the file,
//           after ftruncate, after fallocate) of as many bytes
// restore:  verified, with the page cache dropped; its limit is a bare O_DIRECT read

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>

#include "gradstore/gradient_store.h"
#include "gradstore/snapshot_store.h"
#include "io/aligned_buffer.h"
#include "limits.h"
#include "workloads.h"

namespace gradstore::bench {
namespace {

using Times = std::map<std::string, std::vector<double>>;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void drop_from_page_cache(const std::filesystem::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  close(file);
}

class Bench {
 public:
  Bench(const std::string& workload, std::filesystem::path directory)
      : workload_(make_workload(workload)),
        directory_(std::move(directory)),
        flat_(round_up(workload_.bytes)),
        staged_(round_up(workload_.bytes)) {
    flat_.touch();
    staged_.touch();
    std::memset(flat_.data(), 0x5a, flat_.size());
    std::int64_t id = 0;
    for (const auto& tensor : workload_.tensors) {
      gradients_.register_param(id, "param." + std::to_string(id), 0, tensor);
      gradients_.append_gradients_by_param_id(tensor, 0, id++);
    }
    store_ = SnapshotStore::open(directory_ / "store");
  }

  void round(std::uint64_t step, Times& times) {
    times["memcpy"].push_back(copy_with_two_threads(flat_.bytes(), staged_.bytes()));
    double best = 1e9;
    for (const auto reserve : {Reserve::nothing, Reserve::truncate, Reserve::allocate}) {
      best = std::min(best, write_direct(directory_ / "bare", flat_.bytes(), reserve));
    }
    times["write"].push_back(best);
    times["read"].push_back(read_direct(directory_ / "bare", staged_.bytes()));
    std::filesystem::remove(directory_ / "bare");

    const auto cpu = cpu_seconds();
    const auto start = now_ns();
    const auto ticket = store_->snapshot(gradients_, {.step = step});
    times["stall"].push_back(seconds_since(start));
    ticket.wait();
    times["durable"].push_back(seconds_since(start));
    times["cpu"].push_back(cpu_seconds() - cpu);

    const auto file = directory_ / "store/rank-00000/snapshots" / (to_string(ticket.id()) + ".h5");
    drop_from_page_cache(file);
    const auto restoring = now_ns();
    store_->restore(ticket.id(), gradients_);
    times["restore"].push_back(seconds_since(restoring));
    std::filesystem::remove(file);  // the index keeps its row: only time is of interest here
  }

  void print(const Times& times, std::size_t rounds) const {
    const auto mib = static_cast<double>(workload_.bytes) / (1 << 20);
    std::printf("%s: %zu tensors, %.1f MiB, medians of %zu rounds\n", workload_.name.c_str(),
                workload_.tensors.size(), mib, rounds);
    std::printf("%-10s %10s %10s %10s   %s\n", "", "min ms", "median", "max", "against its limit");
    const auto row = [&](const char* name, const char* limit) {
      const auto& values = times.at(name);
      const auto [low, high] = std::ranges::minmax(values);
      std::printf("%-10s %10.2f %10.2f %10.2f", name, low * 1e3, median(values) * 1e3, high * 1e3);
      if (limit != nullptr) {
        std::vector<double> ratios;
        for (std::size_t i = 0; i < values.size(); ++i)
          ratios.push_back(values[i] / times.at(limit)[i]);
        std::printf("   %.2f x %s", median(ratios), limit);
      }
      std::printf("\n");
    };
    row("memcpy", nullptr);
    row("stall", "memcpy");
    row("write", nullptr);
    row("durable", "write");
    row("read", nullptr);
    row("restore", "read");
    std::printf(
        "cpu: %.2f core-seconds per GiB of snapshot; first snapshot of the layout: stall %.2f ms, "
        "durable %.2f ms\n",
        median(times.at("cpu")) * 1024 / mib, first_stall_ * 1e3, first_durable_ * 1e3);
  }

  // The first snapshot builds the skeleton and takes memory from the operating system.
  void warm_up() {
    Times times;
    round(0, times);
    first_stall_ = times["stall"].front();
    first_durable_ = times["durable"].front();
    times.clear();
    round(1, times);
  }

 private:
  static std::size_t round_up(std::uint64_t bytes) {
    constexpr std::uint64_t kBlock = 8u << 20;
    return (bytes + kBlock - 1) / kBlock * kBlock;
  }

  Workload workload_;
  std::filesystem::path directory_;
  io::AlignedBuffer flat_;
  io::AlignedBuffer staged_;
  GradientStore gradients_;
  std::unique_ptr<SnapshotStore> store_;
  double first_stall_ = 0;
  double first_durable_ = 0;
};

int run(int argc, char** argv) {
  CLI::App app("Times snapshots against memcpy and the bare disk.");
  std::string workload = "gpt2";
  std::size_t rounds = 7;
  std::string directory = "gradstore-bench";
  app.add_option("--workload", workload, "gpt2, big or small")->capture_default_str();
  app.add_option("--rounds", rounds, "Rounds after two to warm up")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--dir", directory, "Where to write; removed at the end")->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  if (std::filesystem::exists(directory)) {
    std::cerr << "gradstore-bench: " << directory << " exists already; give another --dir\n";
    return 2;
  }
  std::filesystem::create_directories(directory);
  {
    Bench bench(workload, directory);
    bench.warm_up();
    Times times;
    for (std::size_t i = 0; i < rounds; ++i) bench.round(2 + i, times);
    bench.print(times, rounds);
  }
  std::filesystem::remove_all(directory);
  return 0;
}

}  // namespace
}  // namespace gradstore::bench

int main(int argc, char** argv) {
  try {
    return gradstore::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "gradstore-bench: " << gradstore::describe(error) << "\n";
    return 2;
  }
}

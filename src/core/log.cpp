#include "core/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>

namespace gradstore::log {

namespace {

constexpr const char* kLoggerName = "gradstore";
constexpr const char* kVariable = "GRADSTORE_LOG";

constexpr std::pair<std::string_view, spdlog::level::level_enum> kLevels[] = {
    {"trace", spdlog::level::trace}, {"debug", spdlog::level::debug}, {"info", spdlog::level::info},
    {"warn", spdlog::level::warn},   {"error", spdlog::level::err},   {"off", spdlog::level::off},
};

// Null when the environment does not ask for a log.
std::shared_ptr<spdlog::logger> logger_of_environment() {
  const char* value = std::getenv(kVariable);
  if (value == nullptr || *value == '\0') return nullptr;
  const auto* level =
      std::ranges::find(kLevels, std::string_view(value), [](auto& entry) { return entry.first; });
  if (level == std::end(kLevels)) {
    std::fprintf(stderr,
                 "gradstore: %s=%s is ignored; its values are trace, debug, info, warn, error, "
                 "off\n",
                 kVariable, value);
    return nullptr;
  }
  // Not registered: that name is the application's to take.
  auto logger = std::make_shared<spdlog::logger>(kLoggerName,
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_level(level->second);
  return logger;
}

std::shared_ptr<spdlog::logger> current_logger() {
  if (auto registered = spdlog::get(kLoggerName)) return registered;
  // Never destroyed: a writer thread may log while the program ends.
  static const auto& fallback = *new std::shared_ptr<spdlog::logger>(logger_of_environment());
  return fallback;
}

void write(spdlog::level::level_enum level, std::string_view event, Fields fields) {
  const auto logger = current_logger();
  if (!logger || !logger->should_log(level)) return;
  std::string line(event);
  for (const auto& [key, value] : fields) {
    line += ' ';
    line += key;
    line += '=';
    line += value;
  }
  logger->log(level, spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace

void debug(std::string_view event, Fields fields) { write(spdlog::level::debug, event, fields); }
void info(std::string_view event, Fields fields) { write(spdlog::level::info, event, fields); }
void warn(std::string_view event, Fields fields) { write(spdlog::level::warn, event, fields); }
void error(std::string_view event, Fields fields) { write(spdlog::level::err, event, fields); }

}  // namespace gradstore::log

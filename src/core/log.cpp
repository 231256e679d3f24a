#include "core/log.h"

#include <spdlog/spdlog.h>

namespace gradstore::log {

namespace {

void write(spdlog::level::level_enum level, std::string_view event, Fields fields) {
  const auto logger = spdlog::get("gradstore");
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

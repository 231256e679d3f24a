#include "core/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <iostream>
#include <memory>

namespace gradstore::log {
namespace {

using ::testing::AllOf;
using ::testing::ExitedWithCode;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;

// The environment is read once, so each case is a process of its own; what it wrote to stderr is
// what EXPECT_EXIT matches.
class LogTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  static void set_variable(const char* value) { ::setenv("GRADSTORE_LOG", value, 1); }

  static void write_one_of_each() {
    debug("slice written", {{"bytes", "12"}});
    info("snapshot committed", {{"step", "3"}, {"bytes", "45"}});
    warn("orphan removed");
    error("index lost");
  }

  // As an application does: its lines end in " [of the application]".
  static void register_logger() {
    auto logger = std::make_shared<spdlog::logger>(
        "gradstore", std::make_shared<spdlog::sinks::ostream_sink_mt>(std::cerr));
    logger->set_pattern("%v [of the application]");
    spdlog::register_logger(logger);
  }
};

// Runs the statement in a process of its own and matches what it wrote to stderr.
template <typename F>
[[noreturn]] void run_and_exit(F f) {
  f();
  std::exit(0);
}

TEST_F(LogTest, SilentUnlessAskedFor) {
  ::unsetenv("GRADSTORE_LOG");
  EXPECT_EXIT(run_and_exit([] { write_one_of_each(); }), ExitedWithCode(0), IsEmpty());
}

TEST_F(LogTest, EmptyValueIsNone) {
  EXPECT_EXIT(run_and_exit([] {
                set_variable("");
                write_one_of_each();
              }),
              ExitedWithCode(0), IsEmpty());
}

TEST_F(LogTest, VariableSendsLinesOfItsLevelAndAboveToStderr) {
  EXPECT_EXIT(run_and_exit([] {
                set_variable("info");
                write_one_of_each();
              }),
              ExitedWithCode(0),
              AllOf(Not(HasSubstr("slice written")),
                    HasSubstr("[gradstore] [info] snapshot committed step=3 bytes=45\n"),
                    HasSubstr("[warning] orphan removed\n"), HasSubstr("[error] index lost\n")));
}

TEST_F(LogTest, EachLevelIsKnownByName) {
  const std::pair<const char*, int> lines[] = {{"trace", 4}, {"debug", 4}, {"info", 3},
                                               {"warn", 2},  {"error", 1}, {"off", 0}};
  for (const auto& [level, count] : lines) {
    SCOPED_TRACE(level);
    const char* const value = level;  // A structured binding cannot be captured.
    std::string expected;
    for (int i = 0; i < count; ++i) expected += "[^\n]*gradstore[^\n]*\n";
    EXPECT_EXIT(run_and_exit([&] {
                  set_variable(value);
                  write_one_of_each();
                }),
                ExitedWithCode(0), MatchesRegex(expected));
  }
}

TEST_F(LogTest, BadValueIsToldOnceAndOtherwiseIgnored) {
  EXPECT_EXIT(run_and_exit([] {
                set_variable("Debug");
                write_one_of_each();
                write_one_of_each();
              }),
              ExitedWithCode(0),
              ::testing::StrEq("gradstore: GRADSTORE_LOG=Debug is ignored; its values are trace, "
                               "debug, info, warn, error, off\n"));
}

TEST_F(LogTest, RegisteredLoggerWinsAlsoWhenItComesLater) {
  EXPECT_EXIT(run_and_exit([] {
                set_variable("warn");
                write_one_of_each();
                register_logger();
                info("second round");
                warn("third round");
              }),
              ExitedWithCode(0),
              AllOf(HasSubstr("[warning] orphan removed\n"),
                    HasSubstr("second round [of the application]\n"),
                    HasSubstr("third round [of the application]\n"),
                    Not(HasSubstr("[warning] third round"))));
}

TEST_F(LogTest, RegisteredLoggerNeedsNoVariable) {
  ::unsetenv("GRADSTORE_LOG");
  EXPECT_EXIT(run_and_exit([] {
                register_logger();
                write_one_of_each();
              }),
              ExitedWithCode(0),
              ::testing::StrEq("snapshot committed step=3 bytes=45 [of the application]\n"
                               "orphan removed [of the application]\n"
                               "index lost [of the application]\n"));
}

}  // namespace
}  // namespace gradstore::log

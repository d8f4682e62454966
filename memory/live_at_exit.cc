#include "brim/memory/live_at_exit.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <vector>

#include "brim/memory/summary.h"

namespace brim::memory {
namespace {

struct Reported {
  std::mutex mutex;
  std::vector<std::shared_ptr<Account>> accounts;
};

Reported& reported() {
  static auto* reported = new Reported;  // read after globals are gone
  return *reported;
}

void report() {
  std::lock_guard lock(reported().mutex);
  for (const auto& account : reported().accounts)
    std::fprintf(stderr, "brim: at exit %s\n", describe_live(*account).c_str());
}

}  // namespace

std::string describe_live(const Account& account) {
  std::vector<BufferInfo> held = memory_snapshot(account);
  return to_string(account.device()) + " holds " +
         (held.empty() ? "nothing" : describe(held, /*most=*/20));
}

void report_live_at_exit(std::shared_ptr<Account> account) {
  std::lock_guard lock(reported().mutex);
  if (reported().accounts.empty()) std::atexit(report);
  reported().accounts.push_back(std::move(account));
}

void report_live_at_exit(Device device) { report_live_at_exit(account(device)); }

std::shared_ptr<Account> report_at_exit_if_asked(std::shared_ptr<Account> account) {
  const char* asked = std::getenv("BRIM_REPORT_LEAKS");
  if (asked != nullptr && std::string_view(asked) == "1") report_live_at_exit(account);
  return account;
}

}  // namespace brim::memory

#include "brim/base/device.h"

#include <doctest/doctest.h>

#include "brim/base/error.h"

using namespace brim;

TEST_CASE("devices parse and print") {
  for (Device device : {Device::cpu(), Device::meta(), Device::cuda(0), Device::cuda(3)})
    CHECK(parse_device(to_string(device)) == device);
  CHECK(parse_device("cuda") == Device::cuda(0));
}

TEST_CASE("unknown devices are refused by name") {
  for (const char* text : {"", "gpu", "cuda:", "cuda:-1", "cuda:x", "cpu:0 "}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_device(text), DeviceError);
  }
}

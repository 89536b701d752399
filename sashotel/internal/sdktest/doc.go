// Package sdktest tests package sashotel with the SDK of OpenTelemetry. It has only tests, so that
// users of sashotel do not require the SDK.
package sdktest

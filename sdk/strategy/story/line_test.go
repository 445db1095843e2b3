package story

import (
	"strings"
	"testing"

	"talon/sdk/abi"
	"talon/sdk/strategy"
)

func TestRuns(t *testing.T) {
	if got := strings.Join(runs([]string{"a1", "a2", "a3", "a5", "a9", "a10", "b"}), " "); got != "a1..3 a5 a9 a10 b" {
		t.Errorf("%q", got)
	}
	for millis, want := range map[int64]string{0: "0s", 90_000: "1m30s", -500: "-500ms", 25 * strategy.Hour: "1d1h"} {
		if got := Elapsed(millis); got != want {
			t.Errorf("%d is written %s, want %s", millis, got, want)
		}
	}
	if Line(&abi.StepAction{Do: abi.DoSetTimer, ID: "t", At: 5}) != "timer t 5" {
		t.Error("a line of a harness is written as in a story")
	}
}

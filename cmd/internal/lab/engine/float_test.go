package engine_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"testing"
)

// The decisions of a run and its figures have the same bits on every processor. The
// compiler may fuse a product and a sum on arm64, but not on amd64. An explicit conversion,
// float64(x*y), forbids it. The compiled code shows that no place is fused.
func TestFloats(t *testing.T) {
	if os.Getenv("TALON_TEST_SCALE") == "" {
		t.Skip("compiles for another processor")
	}
	const all = "talon/cmd/internal/lab/..."
	decides := []string{all, "talon/host/relaymodel", "talon/host/relaysync/...", "talon/host/gitfetch/queue", "talon/sdk/strategy", "talon/sdk/throttle"}
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"build", "-gcflags=-S"}, decides...)...)
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	code, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %.2000s", err, code)
	}
	if n := len(regexp.MustCompile(`\tF(MUL|ADD)D\t`).FindAll(code, 20)); n < 20 {
		t.Fatalf("the compiler shows %d products and sums: it does not say what it makes", n)
	}
	var places []string
	for _, m := range regexp.MustCompile(`\((\S+\.go:\d+)\)\tFN?M(?:ADD|SUB)[SD]\t`).FindAllSubmatch(code, -1) {
		places = append(places, string(m[1]))
	}
	slices.Sort(places)
	for _, place := range slices.Compact(places) {
		t.Errorf("%s: a product and a sum are one operation on arm64: write float64(x*y) + z", place)
	}
}

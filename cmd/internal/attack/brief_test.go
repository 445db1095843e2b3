//go:build !race

package attack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"talon/host/plugin/plugintest"
	"talon/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(plugintest.Main(m)) }

// part divides the attacks, and the pots and queues of the server.
const part = 50

// TestBriefAttacks runs every attack at a fiftieth of its size against one server with bounds
// that are as small. It asserts no times: the server goes on, refuses nobody honest, and is level
// afterwards.
func TestBriefAttacks(t *testing.T) {
	plugins := []string{"plugins/rate", "plugins/limits", "plugins/lists", "plugins/open", "plugins/grasp"}
	modules, code := plugintest.Build(t, plugins...), plugintest.MachineCode(t, plugins...)
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "data"), 0o700), os.Symlink(code, filepath.Join(dir, "data", "wasm-cache"))); err != nil {
		t.Fatal(err)
	}
	s, err := startServer(t.Context(), plugintest.TalonWith(t, fmt.Sprintf("talon/host/bound.divisor=%d", part)), dir, []string{"--plugins", modules, "--allow-private=true"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	target := &Target{Listen: s.listen, Dir: t.TempDir(), Blob: 1 << 20}
	const phase = 250 * time.Millisecond // a round of each person
	all := All()
	b, err := newBystanders(t.Context(), target, t.TempDir(), time.Duration(len(all))*phase)
	if err != nil {
		t.Fatal(err)
	}
	b.patience = time.Until(testkit.Deadline(t)) / 4 // a machine that pauses refuses nobody
	for _, a := range all {
		began, before := time.Now(), s.usage()
		run, err := a.Prepare(t.Context(), target, max(a.Count/part, 1))
		if err != nil {
			t.Fatalf("prepare %s: %v", a.Name, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan Outcome, 1)
		go func() { ended <- run(ctx) }()
		samples := b.run(t.Context(), phase)
		cancel()
		o := testkit.Receive(t, "the end of the attack "+a.Name, ended)
		if n, examples := samples.refusals(); n > 0 {
			t.Errorf("%s: %d operations of honest people were refused: %q", a.Name, n, examples)
		}
		if !s.alive() {
			t.Fatalf("%s ended the server: %s", a.Name, s.lastLog())
		}
		testkit.Eventually(t, "the server is level after "+a.Name, func() bool {
			after := s.usage()
			return len(after.findings(before, a.disk())) == 0
		})
		t.Logf("%s took %v, %v %q", a.Name, time.Since(began), o.Figures, o.Said)
	}
}

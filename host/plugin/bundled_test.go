package plugin

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"talon/host/bundle"
	"talon/host/plugin/sidecar"
)

// bundleOf returns a bundle of these modules.
func bundleOf(t *testing.T, list ...bundle.Source) *bundle.Bundle {
	t.Helper()
	var file bytes.Buffer
	if err := bundle.Write(&file, list); err != nil {
		t.Fatal(err)
	}
	b, err := bundle.Open(file.Bytes(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fallback is a bundle with a policy for on-failure = "bundled" that does not run by itself.
func fallback(t *testing.T, p tiny) *bundle.Bundle {
	t.Helper()
	return bundleOf(t, bundle.Source{Name: "grasp", Wasm: p.wasm(t)})
}

// TestBundled runs what came with the program: the operator's folder configures and replaces it.
func TestBundled(t *testing.T) {
	w := newWorld(t)
	first := rejecting("bundled")
	first.version = "1.0.0"
	w.o.Bundled = bundleOf(t,
		bundle.Source{Name: "open", Wasm: accepting("1").wasm(t), Default: true},
		bundle.Source{Name: "guard", Wasm: first.wasm(t)})
	w.mustOpen()
	w.want("open accept v1")
	if s := w.of("open"); s.Origin != FromBundle || s.Unused {
		t.Errorf("%+v", s)
	}
	if s := w.of("guard"); !s.Unused || s.Origin != FromBundle || s.Running != nil || s.Mode != sidecar.Off {
		t.Errorf("%+v", s)
	}

	// A side-car alone runs a bundled module.
	w.change("guard.toml", nil)
	w.want("guard reject bundled")
	if s := w.of("guard"); s.Unused || s.Origin != FromBundle || s.Quarantine != nil {
		t.Errorf("%+v", s)
	}
	// A file replaces it.
	w.change("guard.wasm", rejecting("mine").wasm(t))
	w.want("guard reject mine")
	if s := w.of("guard"); s.Origin != FromFolder {
		t.Errorf("%+v", s)
	}
	w.restart()
	w.want("guard reject mine")

	// Back to the bundled one, by a command and by a restart: no copy of it is in the folder.
	w.mustRollback("guard", 1)
	w.want("guard reject bundled")
	if _, err := os.Stat(w.file("guard.wasm")); !os.IsNotExist(err) {
		t.Errorf("the folder has guard.wasm: %v", err)
	}
	w.restart()
	w.want("guard reject bundled")
	w.change("guard.wasm", rejecting("mine").wasm(t))
	w.remove("guard.wasm")
	w.look()
	w.want("guard reject bundled")
	w.remove("guard.toml")
	w.look()
	w.want("open accept v1")
	if s := w.of("guard"); !s.Unused {
		t.Errorf("%+v", s)
	}

	// A command turns it on and off, and a default one too.
	w.mustSetMode("guard", sidecar.Enforce)
	w.want("guard reject bundled")
	w.mustSetMode("guard", sidecar.Off)
	w.want("open accept v1")
	w.mustSetMode("guard", sidecar.Shadow)
	w.mustSetMode("open", sidecar.Off)
	w.want(" reject default")
	w.mustSetMode("open", sidecar.Enforce)
	w.restart()
	w.want("open accept v1")
}

// TestBundledNames has files whose names are nearly those of bundled modules.
func TestBundledNames(t *testing.T) {
	w := newWorld(t)
	w.o.Bundled = bundleOf(t,
		bundle.Source{Name: "open", Wasm: accepting("1").wasm(t), Default: true},
		bundle.Source{Name: "guard", Wasm: rejecting("bundled").wasm(t)})
	w.drop("Guard.wasm", rejecting("mine").wasm(t))
	w.drop("OPEN.toml", []byte(`mode = "off"`))
	w.mustOpen()
	w.want("open accept v1")
	w.wantRefused("Guard.wasm", "differs from that of the bundled module guard only in case")
	w.wantRefused("OPEN.toml", "there is no OPEN.wasm for this side-car")
}

// TestBundledPolicy names a bundled policy that does not run by itself.
func TestBundledPolicy(t *testing.T) {
	w := newWorld(t)
	w.o.Bundled = bundleOf(t,
		bundle.Source{Name: "open", Wasm: accepting("1").wasm(t), Default: true},
		bundle.Source{Name: "guard", Wasm: rejecting("bundled").wasm(t)})
	w.o.Policy = []string{"guard"}
	w.mustOpen()
	w.want("guard reject bundled")
	if s := w.of("open"); !s.LeftOut {
		t.Errorf("%+v", s)
	}
}

// TestBundledUpgrade starts another program on the same data: its modules run, and a rollback
// returns to those of the program before.
func TestBundledUpgrade(t *testing.T) {
	w := newWorld(t)
	w.o.Bundled = bundleOf(t, bundle.Source{Name: "open", Wasm: accepting("1").wasm(t), Default: true})
	w.mustOpen()
	w.want("open accept v1")
	w.o.Bundled = bundleOf(t, bundle.Source{Name: "open", Wasm: accepting("2").wasm(t), Default: true})
	w.restart()
	w.want("open accept v2")
	w.mustRollback("open", 1)
	w.want("open accept v1")
	if s := w.of("open"); s.Origin != FromFolder {
		w.look()
		if s = w.of("open"); s.Origin != FromFolder {
			t.Errorf("%+v", s)
		}
	}
	w.restart()
	w.want("open accept v1")
}

// TestBundledSigners lets only signed modules run: bundled ones are no exception.
func TestBundledSigners(t *testing.T) {
	w := newWorld(t)
	w.o.Signers = [][32]byte{alice.PubKey}
	wasm := accepting("1").wasm(t)
	w.o.Bundled = bundleOf(t, bundle.Source{Name: "open", Wasm: wasm, Default: true})
	if err := w.open(); err == nil || !strings.Contains(err.Error(), "plugin open: it is not signed: want open.wasm.sig beside it") {
		t.Errorf("%v", err)
	}
	w.dropSigned("open", wasm, alice)
	w.remove("open.wasm")
	w.mustOpen()
	w.want("open accept v1")
	if s := w.of("open"); s.Origin != FromBundle || s.Running.SignedBy == "" {
		t.Errorf("%+v", s)
	}
}

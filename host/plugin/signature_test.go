package plugin

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"

	"talon/host"
	"talon/host/plugin/sidecar"
	"talon/internal/testkit"
	"talon/sdk/nip19"
)

var alice, mallory = testkit.NewSigner(7), testkit.NewSigner(8)

// signedBy is a signer's claim about a module.
func signedBy(signer *testkit.Signer, wasm []byte, capabilities ...string) []byte {
	tags := host.Tags{{"x", fmt.Sprintf("%x", sha256.Sum256(wasm))}}
	for _, capability := range capabilities {
		tags = append(tags, host.Tag{"capability", capability})
	}
	return signer.Event(SignatureKind, now, "", tags...).JSON
}

// signers is a side-car that names who must have signed.
func signers(who ...*testkit.Signer) []byte {
	var list []string
	for _, s := range who {
		list = append(list, `"`+nip19.EncodeNpub(s.PubKey)+`"`)
	}
	return []byte("signers = [" + strings.Join(list, ", ") + "]\n")
}

// TestSigned drops modules with signatures that do not fit: none of them runs.
func TestSigned(t *testing.T) {
	w := openWorld(t)
	module, other := rejecting("m").wasm(t), rejecting("other").wasm(t)
	w.drop("guard.toml", signers(alice))
	w.drop("guard.wasm", module)
	good := signedBy(alice, module)
	for _, test := range []struct {
		name      string
		signature []byte
		reason    string
	}{
		{"none", nil, "it is not signed: want guard.wasm.sig beside it"},
		{"by another key", signedBy(mallory, module), "who is not among the signers of guard.toml"},
		{"for another file", signedBy(alice, other), "the signature is for another file"},
		{"for other capabilities", signedBy(alice, module, "log"), `the signature is for the capabilities ["log"]`},
		{"forged", []byte(strings.Replace(string(good), `"created_at":17`, `"created_at":18`, 1)), "was changed after it was made"},
		{"garbage", []byte("{}"), "the signature is no event"},
		{"empty", []byte{}, "the signature is no event"},
		{"too long", make([]byte, MaxSignature+1), "want at most 65536"},
	} {
		if test.signature != nil {
			w.drop("guard.wasm.sig", test.signature)
		}
		w.look()
		w.want("open accept v1")
		w.wantRefused("guard", test.reason)
	}
	w.change("guard.wasm.sig", good)
	w.want("guard reject m")
	if r := w.of("guard").Running; r.SignedBy != nip19.EncodeNpub(alice.PubKey) {
		t.Errorf("signed by %q", r.SignedBy)
	}
}

// TestSignedSwap replaces module and signature, one file after the other: what is
// whole and signed runs, at every moment.
func TestSignedSwap(t *testing.T) {
	for _, order := range [][]string{{"guard.wasm", "guard.wasm.sig"}, {"guard.wasm.sig", "guard.wasm"}} {
		t.Run(order[0]+" first", func(t *testing.T) {
			w := newWorld(t)
			w.o.Signers = [][32]byte{alice.PubKey, mallory.PubKey}
			one, two, open := rejecting("one").wasm(t), rejecting("two").wasm(t), accepting("1").wasm(t)
			files := map[string][]byte{"guard.wasm": two, "guard.wasm.sig": signedBy(mallory, two)}
			w.dropSigned("open", open, alice)
			w.dropSigned("guard", one, alice)
			w.mustOpen()
			w.want("guard reject one")
			w.change(order[0], files[order[0]])
			w.want("guard reject one")
			w.wantRefused("guard", "")
			w.restart() // between the two
			w.want("guard reject one")
			w.change(order[1], files[order[1]])
			w.want("guard reject two")
			if s := w.of("guard"); s.Quarantine != nil || s.Running.Generation != 2 {
				t.Errorf("%+v", s)
			}
			// The signature comes back with the module.
			w.mustRollback("guard", 1)
			w.look()
			w.want("guard reject one")
			w.restart()
			w.want("guard reject one")
			w.wantTaken("guard")
		})
	}
}

// TestSignedBySwap swaps by command.
func TestSignedBySwap(t *testing.T) {
	w := newWorld(t)
	w.o.Signers = [][32]byte{alice.PubKey}
	open, two := accepting("1").wasm(t), accepting("2").wasm(t)
	w.dropSigned("open", open, alice)
	w.mustOpen()
	if _, err := w.Swap(t.Context(), "open", two, nil); err == nil || !strings.Contains(err.Error(), "for another file") {
		t.Errorf("%v", err)
	}
	if _, err := w.Swap(t.Context(), "open", two, signedBy(mallory, two)); err == nil || !strings.Contains(err.Error(), "not among --plugin-signers") {
		t.Errorf("%v", err)
	}
	w.want("open accept v1")
	w.mustSwap("open", two, signedBy(alice, two))
	w.want("open accept v2")
	w.mustSetMode("open", sidecar.Enforce)
	w.look()
	w.restart()
	w.want("open accept v2")
	w.wantTaken("open")
}

// TestSignersNarrow has signers in a side-car: they cannot add to those of the options,
// and programs, which nobody signs, do not run at all then.
func TestSignersNarrow(t *testing.T) {
	w := newWorld(t)
	w.o.Signers, w.o.AllowExec = [][32]byte{alice.PubKey}, true
	open, module := accepting("1").wasm(t), rejecting("m").wasm(t)
	w.dropSigned("open", open, alice)
	w.mustOpen()
	w.dropSigned("guard", module, mallory)
	w.drop("guard.toml", signers(mallory))
	w.change("spam.toml", execOf(programOf(t, "reject")))
	w.want("open accept v1")
	for name, want := range map[string]string{"guard": "not among --plugin-signers", "spam": "only signed modules run"} {
		w.wantRefused(name, want)
	}
	w.change("guard.wasm.sig", signedBy(alice, module))
	w.want("open accept v1")
	w.change("guard.toml", signers(mallory, alice))
	w.want("guard reject m")
}

// TestUnsigned starts with a module that is not signed: the relay does not, and says
// why. Where nobody asks for signatures, they are not read.
func TestUnsigned(t *testing.T) {
	w := newWorld(t)
	w.drop("open.wasm", accepting("1").wasm(t))
	w.drop("open.wasm.sig", []byte("garbage"))
	w.mustOpen()
	w.want("open accept v1")
	w.change("open.wasm.sig", []byte("other garbage"))
	if s := w.of("open"); s.Running.Generation != 1 || s.Quarantine != nil {
		t.Errorf("%+v", s)
	}
	w.close()
	w.o.Signers = [][32]byte{alice.PubKey}
	if err := w.open(); err == nil || !strings.Contains(err.Error(), "the signature is no event") {
		t.Errorf("%v", err)
	}
	if err := os.Remove(w.file("open.wasm.sig")); err != nil {
		t.Fatal(err)
	}
	if err := w.open(); err == nil || !strings.Contains(err.Error(), "plugin open: it is not signed") {
		t.Errorf("%v", err)
	}
}

// TestSignedFallback has a module that fails and on-failure = "bundled": what came with
// the program needs no signature.
func TestSignedFallback(t *testing.T) {
	w := newWorld(t)
	w.o.Signers, w.o.Bundled = [][32]byte{alice.PubKey}, fallback(t, rejecting("ours"))
	module := accepting("1")
	module.trap = true
	wasm := module.wasm(t)
	w.dropSigned("open", wasm, alice)
	w.drop("open.toml", []byte(`on-failure = "bundled"`))
	w.mustOpen()
	if got := w.said(255); got != "bundled-grasp reject ours" {
		t.Errorf("%q", got)
	}
}

// TestRequiredSidecar changes the side-car of a policy that is required, where only
// signed modules run: without a signature of its own it changes nothing, unless a command
// does it.
func TestRequiredSidecar(t *testing.T) {
	for _, byChoice := range []bool{false, true} {
		t.Run(fmt.Sprintf("chosen=%v", byChoice), func(t *testing.T) {
			w := newWorld(t)
			w.o.Signers = [][32]byte{alice.PubKey}
			guard, open := rejecting("g").wasm(t), accepting("1").wasm(t)
			w.dropSigned("open", open, alice)
			w.dropSigned("guard", guard, alice)
			if byChoice {
				w.o.Policy = []string{"guard", "open"}
			} else {
				w.drop("guard.toml", []byte("required = true\n"))
			}
			w.mustOpen()
			w.want("guard reject g")
			off := []byte("mode = \"off\"\n")
			w.drop("guard.toml", off)
			for _, test := range []struct {
				name      string
				signature []byte
				reason    string
			}{
				{"none", nil, "want guard.toml.sig beside it"},
				{"by another key", signedBy(mallory, off), "guard.toml is signed by"},
				{"of another file", signedBy(alice, guard), "the signature is for another file"},
				{"garbage", []byte("{}"), "the signature is no event"},
			} {
				if test.signature != nil {
					w.drop("guard.toml.sig", test.signature)
				}
				for range 2 {
					w.look()
					w.want("guard reject g")
					w.wantRefused("guard", test.reason)
					w.restart()
				}
				w.want("guard reject g")
			}
			w.change("guard.toml.sig", signedBy(alice, off))
			w.want("open accept v1")
			w.mustSetMode("guard", sidecar.Enforce)
			w.want("guard reject g")
			w.restart() // what a command wrote needs no signature
			w.want("guard reject g")
			w.wantTaken("guard")
		})
	}
}

// TestSignedSidecarTakenAway removes the side-car that makes a policy a required one.
func TestSignedSidecarTakenAway(t *testing.T) {
	w := newWorld(t)
	w.o.Signers = [][32]byte{alice.PubKey}
	guard := rejecting("g").wasm(t)
	w.dropSigned("guard", guard, alice)
	w.drop("guard.toml", []byte("required = true\n"))
	w.mustOpen()
	w.remove("guard.toml")
	w.look()
	w.want("guard reject g")
	w.wantRefused("guard", "is not there any more: want guard.toml")
	w.change("guard.toml", []byte("required = true\n"))
	w.wantTaken("guard")
}

// TestOlderVersion drops an older module that is signed: it runs if a command says so.
func TestOlderVersion(t *testing.T) {
	w := newWorld(t)
	w.o.Signers = [][32]byte{alice.PubKey}
	put := func(version string) []byte {
		wasm := accepting(version).wasm(t)
		w.dropSigned("open", wasm, alice)
		return wasm
	}
	put("1.10.0")
	w.mustOpen()
	old := put("1.9.3")
	w.look()
	w.want("open accept v1.10.0")
	w.wantRefused("open", `its version "1.9.3" is older than "1.10.0"`)
	w.restart()
	w.want("open accept v1.10.0")
	w.mustSwap("open", old, signedBy(alice, old))
	w.want("open accept v1.9.3")
	w.restart()
	w.want("open accept v1.9.3")
	put("2.0.0")
	w.look()
	w.want("open accept v2.0.0")
	w.mustRollback("open", 1)
	w.want("open accept v1.9.3")
}

func TestOlder(t *testing.T) {
	order := []string{"0.9", "1.0.0-alpha", "1.0.0-rc1", "1.0", "1.0.1", "v1.2", "1.10.0", "2"}
	for i, a := range order {
		for j, b := range order {
			if older(a, b) != (i < j) {
				t.Errorf("%s is older than %s: %v", a, b, older(a, b))
			}
		}
	}
	for _, odd := range []string{"", "devel", "1..2", "1.x", "-1", "99999999999999999999"} {
		if older(odd, "1") || older("1", odd) {
			t.Errorf("%q is compared", odd)
		}
	}
}

package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"talon/host/plugin/sidecar"
)

// programOf writes a program that notes its processes and answers everything with an
// action, and returns its path.
func programOf(t *testing.T, action string) string {
	t.Helper()
	return shellProgram(t, "echo $$ >>pids\n"+answering(action, `too many\\nwords`))
}

func execOf(path string) []byte { return []byte("exec = '" + path + "'\ntimeout = '10s'\n") }

// TestProgramLife is the whole life of a program as a link of the chain.
func TestProgramLife(t *testing.T) {
	w := newWorld(t)
	w.o.AllowExec = true
	w.drop("open.wasm", accepting("1").wasm(t))
	w.mustOpen()
	reject, accept := programOf(t, "reject"), programOf(t, "accept")

	w.change("spam.toml", execOf(reject)) // dropped
	if p := w.of("spam"); p.Running == nil || p.Running.Instances != 0 || p.Running.Program.Path != reject || p.Running.Place != 50 {
		t.Errorf("before the first question: %+v", p.Running)
	}
	w.want("spam reject exec")
	r, err := w.Admit(t.Context(), item(1), nil, now)
	if err != nil || r.Reason != "blocked: too many words" {
		t.Errorf("%+v, %v", r, err)
	}
	if why, ok := w.Why(item(1).Event.ID); !ok || why.Ruling.Plugin != "spam" || why.Ruling.Rule != "exec" || why.Ruling.Generation != 1 {
		t.Errorf("%+v", why)
	}
	w.look() // the same once more
	if p := w.of("spam"); p.Running.Generation != 1 || p.Running.Instances != 1 || p.Calls != 2 {
		t.Errorf("%+v", p)
	}

	w.change("spam.toml", append([]byte("mode = 'shadow'\n"), execOf(reject)...)) // shadowed
	w.want("open accept v1")
	if p := w.of("spam"); len(p.Disagreements) != 1 || p.Mode != sidecar.Shadow {
		t.Errorf("%+v", p)
	}

	w.change("spam.toml", execOf(accept)) // replaced: what it accepts, others decide about
	w.want("open accept v1")
	w.change("spam.toml", append(execOf(accept), "on-accept = 'accept'\n"...))
	w.want("spam accept exec")

	w.mustSetMode("spam", sidecar.Off) // off
	w.want("open accept v1")
	w.look()
	if p := w.of("spam"); p.Mode != sidecar.Off || p.Running != nil || p.Quarantine != nil {
		t.Errorf("%+v", p)
	}
	w.mustSetMode("spam", sidecar.Enforce)
	w.want("spam accept exec")

	w.change("spam.toml", []byte("exec = 'spam'")) // wrong: what ran goes on
	w.want("spam accept exec")
	if q := w.of("spam").Quarantine; q == nil || !strings.Contains(q.Reason, "want the absolute path") || q.SHA256 != "" {
		t.Errorf("%+v", q)
	}
	w.restart()
	w.want("spam accept exec")

	w.mustRollback("spam", 1) // put right
	w.look()
	w.want("spam accept exec")

	w.remove("spam.toml") // removed
	w.look()
	w.want("open accept v1")
	if list := w.List(); len(list) != 1 {
		t.Errorf("%+v", list)
	}
	w.close()
	for _, path := range []string{reject, accept} {
		gone(t, filepath.Join(filepath.Dir(path), "pids"))
	}
}

// TestProgramOff drops a program where programs are off: it does not run, also not at
// the next start.
func TestProgramOff(t *testing.T) {
	w := newWorld(t)
	reject := programOf(t, "reject")
	w.drop("open.wasm", accepting("1").wasm(t))
	w.mustOpen()
	w.change("spam.toml", execOf(reject))
	w.want("open accept v1")
	w.wantRefused("spam", "--allow-exec")
	w.restart() // somebody has seen it refused
	w.want("open accept v1")

	// A program that has decided before is not left out in silence.
	w.close()
	w.o.AllowExec = true
	w.mustOpen()
	w.want("spam reject exec")
	w.close()
	w.o.AllowExec = false
	if err := w.open(); err == nil || !strings.Contains(err.Error(), "--allow-exec") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(reject), "pids")); err != nil {
		t.Errorf("%v: want it to have run once", err)
	}
}

// TestProgramFails has programs that fail: on-failure counts as with a module.
func TestProgramFails(t *testing.T) {
	w := newWorld(t)
	w.o.AllowExec = true
	garbage := programOf(t, "yes")
	w.drop("open.wasm", accepting("1").wasm(t))
	w.drop("spam.toml", execOf(garbage))
	w.mustOpen()
	w.want("spam reject failed")
	if p := w.of("spam"); p.Failures != 1 || !strings.Contains(p.LastFailure, "accept, reject or shadowReject") {
		t.Errorf("%+v", p)
	}
	w.change("spam.toml", append([]byte("on-failure = 'open'\n"), execOf(garbage)...))
	w.want("open accept v1")
	for range 10 {
		w.want("spam reject failed")
	}
	if p := w.of("spam"); p.Failures != 2 || p.Refused == 0 {
		t.Errorf("%+v, want that who made it fail is refused", p)
	}
}

// TestProgramRefused looks at what is no program, and is said to be none.
func TestProgramRefused(t *testing.T) {
	w := newWorld(t)
	w.o.AllowExec = true
	accept := programOf(t, "accept")
	module := rejecting("m").wasm(t)
	w.drop("open.wasm", accepting("1").wasm(t))
	w.drop("both.wasm", module)
	w.mustOpen()
	w.drop("both.toml", execOf(accept))
	w.drop("alone.toml", []byte("place = 5"))
	w.change("none.toml", execOf(accept+"-not"))
	w.want("both reject m")
	for name, want := range map[string]string{
		"both": "want one of the two", "alone.toml": "there is no alone.wasm", "none": "no such file",
	} {
		w.wantRefused(name, want)
	}
	w.remove("both.wasm") // a program takes the place of a module
	w.look()
	w.want("open accept v1")
	if p := w.of("both"); p.Running == nil || p.Running.Program == nil || p.Running.Generation != 2 {
		t.Errorf("%+v", p)
	}
	if _, err := w.Swap(t.Context(), "both", module, nil); err == nil || !strings.Contains(err.Error(), "want one of the two") {
		t.Errorf("%v", err)
	}
	w.mustRollback("both", 1) // and back
	w.look()
	w.want("both reject m")
	w.mustRollback("both", 1) // and forth
	w.look()
	w.want("open accept v1")
	if _, err := os.Stat(w.file("both.wasm")); err == nil {
		t.Error("the module is still there")
	}
}

package guest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"talon/host"
)

const (
	// idleVersion changes when what is kept of an idle module does.
	idleVersion = 1

	idleFile = "idle"
	maxIdle  = 16 // configurations of one module
)

// idle is what a module said as it was configured that it passes every request: all that
// is needed of it until its configuration changes. A later start makes no instance to hear
// it again.
type idle struct {
	Key     string           `json:"key"`
	Imports []string         `json:"imports"`
	About   host.Description `json:"about"`
}

// idleKey identifies everything except the module that the answer depends on: the input,
// its bounds, and the fields that this host reads. A new field of the description changes
// the keys.
func (m *Module) idleKey() string {
	bounds := fmt.Sprintf("%d %#v %#v %#v", idleVersion, host.Description{}, m.budgets, m.limits)
	return fmt.Sprintf("%x", sha256.Sum256(append([]byte(bounds), m.config...)))
}

// readIdle returns the entries in the folder of a module's code, the newest first. It
// ignores a file that it cannot read.
func readIdle(dir string) (list []idle) {
	text, err := os.ReadFile(filepath.Join(dir, idleFile))
	if err != nil || json.Unmarshal(text, &list) != nil {
		return nil
	}
	return list
}

// recallIdle makes of m a module that nobody calls, if it is kept that it is one as it is
// configured, that it has passed its self-test, and if it may import what it imports.
func (m *Module) recallIdle(o *Options) bool {
	if o.CacheDir == "" {
		return false
	}
	dir, key := codeDir(o.CacheDir, o.SHA256), m.idleKey()
	list := readIdle(dir)
	at := slices.IndexFunc(list, func(k idle) bool { return k.Key == key })
	if at < 0 || !newSelfTestStamp(dir, m).exists() {
		return false
	}
	for _, name := range list[at].Imports {
		if _, ok := capabilities[name]; !ok || !o.Grants(name) || !slices.Contains(m.manifest.Capabilities, name) {
			return false
		}
	}
	m.imports, m.about, m.functions = list[at].Imports, list[at].About, nil
	m.kept = dir
	m.pool.drain(context.Background())
	return true
}

// keepIdle keeps what the module has said, if it asked the host for nothing before: then it
// says the same again.
func (m *Module) keepIdle() {
	if m.kept == "" || m.asked {
		return
	}
	list := append([]idle{{m.idleKey(), m.imports, m.about}}, readIdle(m.kept)...)
	text, err := json.Marshal(list[:min(len(list), maxIdle)])
	if err == nil {
		err = writeWhole(filepath.Join(m.kept, idleFile), append(bytes.TrimSpace(text), '\n'))
	}
	if err != nil {
		m.log.Debug("it is not kept that a plugin is idle", "module", m.name, "err", err)
	}
}

// dropIdle leaves out the functions in which the module says that it passes every
// request, and keeps what it says about the relay. All instances are configured
// alike.
func (m *Module) dropIdle() {
	first, _ := m.pool.get(context.Background(), atOnce)
	m.about, m.asked = first.about, first.asked
	m.functions = slices.DeleteFunc(m.functions, func(f Func) bool {
		return f.policy() && slices.Contains(first.idle, f.String())
	})
	m.pool.put(first)
}

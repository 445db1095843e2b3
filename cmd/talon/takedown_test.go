package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"talon/host/admin"
	"talon/internal/testkit"
)

// takedown is a service from which an operator takes something down, and what people have on it.
type takedown struct {
	*testing.T
	plugins, data string
	store         []string // options of commands
	restart       func() *story
	other         *story          // of another node; nil for none
	empty         func() []string // options for a database without events, of the same engine
	st            *story

	alice, mallory, carol person
	work                  *folder
	one, two              string // commits
}

// takedownSetup says how the services of [eachEngine] run.
type takedownSetup struct {
	plugins string                  // "": the policy grasp alone
	data    func(testing.TB) string // makes a data folder; nil: graspData
	options []string                // of the servers
	scale   bool                    // the test on PostgreSQL is one of the long ones
}

// eachEngine runs a test with a service alone on SQLite, and with one of two nodes on PostgreSQL.
func eachEngine(t *testing.T, setup takedownSetup, run func(w *takedown)) {
	t.Helper()
	if setup.data == nil {
		setup.data = func(t testing.TB) string { return graspData(t) }
	}
	service := func(t *testing.T) *takedown {
		plugins := setup.plugins
		if plugins == "" {
			plugins = pluginFolder(t, "grasp")
		}
		return &takedown{T: t, plugins: plugins, data: setup.data(t)}
	}
	t.Run("sqlite", func(t *testing.T) {
		w := service(t)
		w.empty = func() []string { return nil }
		w.restart = func() *story { return newStory(t, startGrasp(t, w.data, w.plugins, setup.options...)) }
		w.st = w.restart()
		run(w)
	})
	t.Run("postgres", func(t *testing.T) {
		if setup.scale && os.Getenv("TALON_TEST_SCALE") == "" {
			t.Skip("TALON_TEST_SCALE is not set: the suite of the engines has the rules")
		}
		var database testkit.Postgres
		t.Cleanup(database.Stop)
		url := database.URL(t)
		w := service(t)
		w.store = []string{"--store", url}
		w.empty = func() []string { return []string{"--store", database.URL(t)} }
		repositories := filepath.Join(t.TempDir(), "repositories")
		node := func(name, data string) *story {
			args := append([]string{"--plugins", w.plugins, "--domain", serviceDomain, "--store", url, "--git-data", repositories, "--node", name}, setup.options...)
			return newStory(t, startAs(t, exec.Command("talon", serveArgs(t, data, args...)...), data))
		}
		w.restart = func() *story { return node("a", w.data) }
		w.other = node("b", setup.data(t))
		w.st = w.restart()
		run(w)
	})
}

// nodes returns the servers, and how a test calls each.
func (w *takedown) nodes() map[string]*story {
	all := map[string]*story{"": w.st}
	if w.other != nil {
		all[", at the other node"] = w.other
	}
	return all
}

// again restarts the server.
func (w *takedown) again() *story {
	w.Helper()
	now := w.st.now
	w.st.s.mustStop(w.T)
	w.st = w.restart()
	w.st.now = now
	return w.st
}

// command runs a command on the server, and returns what it prints.
func (w *takedown) command(args ...string) string {
	w.Helper()
	out, err := talon(w.T, nil, append(append(args, "--data", w.data), w.store...)...)
	if err != nil {
		w.Fatalf("%v: %v\n%s", args, err, out)
	}
	return out
}

// moderate runs a command about the moderation log on the server.
func (w *takedown) moderate(args ...string) admin.Moderated {
	w.Helper()
	out := w.command(append(args, "--json")...)
	var result admin.Moderated
	if err := json.Unmarshal([]byte(out), &result); err != nil {
		w.Fatalf("%v: %v\n%s", args, err, out)
	}
	return result
}

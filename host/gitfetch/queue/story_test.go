package queue

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"talon/sdk/abi"
)

var rewrite = flag.Bool("rewrite", false, "write what happens into the stories")

// TestStories plays the stories of testdata: each line that begins with > happens at
// the time of the story, what follows is what the queue made of it.
//
//	> throttle at-once=2           numbers of the throttle or the clamps
//	> repo x needs=a,b at=URL,URL  what a repository lacks, and where it may be
//	> server URL has=a,b took=1s   or outcome=timeout, retry-after=5s, moved=URL
//	> released x, gone x           an event of a repository waits no more
//	> event x sync                 an event is held, of a user or of sync
//	> push x a,b                   objects come by themselves
//	> hurry x, forget x            the operator, the end of all its events
//	> until 20s                    time passes
//	> restart, crash              of the process; a crash loses what was not kept yet
//	> status x, domain NAME
func TestStories(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(text))
			if got == string(text) {
				return
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want := strings.Split(string(text), "\n")
			for i, line := range strings.Split(got, "\n") {
				if i >= len(want) || line != want[i] {
					t.Fatalf("line %d: %s\nwant: %s", i+1, line, strings.Join(want[min(i, len(want)):min(i+1, len(want))], ""))
				}
			}
			t.Fatalf("the story ends after %d lines, want %d", strings.Count(got, "\n"), len(want)-1)
		})
	}
}

func play(t *testing.T, text string) string {
	t.Helper()
	var out strings.Builder
	book, clamps := byTheBook(), DefaultClamps
	w := newWorld(book, clamps)
	w.tell = func(format string, args ...any) {
		fmt.Fprintf(&out, "%8s  %s\n", time.Duration(w.now-began)*time.Millisecond, fmt.Sprintf(format, args...))
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		command, ok := strings.CutPrefix(line, "> ")
		if !ok {
			if line == "" || strings.HasPrefix(line, "#") {
				out.WriteString(line + "\n")
			}
			continue
		}
		out.WriteString(line + "\n")
		fields := strings.Fields(command)
		switch fields[0] {
		case "throttle":
			set(t, fields[1:], map[string]func(string){
				"at-once":    func(v string) { book.atOnce = uint32(number(t, v)) },
				"per-minute": func(v string) { book.perMinute = number(t, v) },
				"all":        func(v string) { w.q.clamps.All = number(t, v) },
				"rounds":     func(v string) { w.q.clamps.Rounds = number(t, v) },
			})
		case "repo":
			r := new(wanted)
			set(t, fields[2:], map[string]func(string){
				"needs": func(v string) { r.missing = strings.Split(v, ",") },
				"at":    func(v string) { r.urls = strings.Split(v, ",") },
			})
			w.repos[fields[1]] = r
		case "server":
			s := &served{took: 100}
			set(t, fields[2:], map[string]func(string){
				"has":         func(v string) { s.has = strings.Split(v, ",") },
				"took":        func(v string) { s.took = span1(t, v) },
				"retry-after": func(v string) { s.retryAfter = span1(t, v) },
				"moved":       func(v string) { s.moved = v },
				"outcome": func(v string) {
					for outcome, name := range outcomeNames {
						if name == v {
							s.outcome = outcome
						}
					}
				},
			})
			w.urls[fields[1]] = s
		case "event":
			w.event(fields[1], map[string]uint32{"user": abi.OriginClient, "sync": abi.OriginSync}[fields[2]])
		case "push":
			r := w.repos[fields[1]]
			for id := range strings.SplitSeq(fields[2], ",") {
				for i, have := range r.missing {
					if have == id {
						r.missing = append(r.missing[:i:i], r.missing[i+1:]...)
						break
					}
				}
			}
		case "released", "gone":
			w.q.Released(fields[1], map[string]Outcome{"released": Complete, "gone": Forgotten}[fields[0]])
			w.work()
		case "hurry":
			w.q.FetchNow(w.now, fields[1], "30617:ab:"+fields[1])
			w.work()
		case "forget":
			w.q.Forget(fields[1])
			w.work()
		case "restart":
			w.keep()
			w.crash(t)
		case "crash":
			w.crash(t)
		case "domain":
			i := slices.IndexFunc(w.q.Domains(w.now, 100), func(d Domain) bool { return d.Name == fields[1] })
			if i < 0 {
				w.tell("nothing is known of %s", fields[1])
				break
			}
			d := w.q.Domains(w.now, 100)[i]
			w.tell("%s: failures %d, starts %d, not before %s", d.Name, d.Failures, d.LastMinute,
				time.Duration(max(d.NotBefore-began, 0))*time.Millisecond)
		case "until":
			w.until(began + span1(t, fields[1]))
		case "status":
			s, ok := w.q.Repository(fields[1])
			if !ok {
				w.tell("%s is not searched for", fields[1])
				break
			}
			w.tell("%s: attempts %d, missing %d, next %s, asking %v, waiting for %v", s.Key, s.Attempts, s.Missing,
				time.Duration(s.Next-began)*time.Millisecond, s.Asking, s.Waiting)
		default:
			t.Fatalf("unknown command %q", command)
		}
	}
	return out.String()
}

func set(t *testing.T, fields []string, keys map[string]func(string)) {
	t.Helper()
	for _, field := range fields {
		key, value, _ := strings.Cut(field, "=")
		f := keys[key]
		if f == nil {
			t.Fatalf("unknown %q", field)
		}
		f(value)
	}
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func span1(t *testing.T, s string) int64 {
	t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d.Milliseconds()
}

package folder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var start = time.Date(2025, 1, 2, 3, 4, 5, 678, time.UTC)

// shelves is a history in a folder that can be opened again.
type shelves struct {
	*testing.T
	*History
	dir string
	now time.Time
}

func fresh(t *testing.T) *shelves {
	t.Helper()
	s := &shelves{T: t, dir: filepath.Join(t.TempDir(), "generations"), now: start}
	s.reopen()
	return s
}

func (s *shelves) reopen() {
	s.Helper()
	var err error
	if s.History, err = openHistory(s.dir, realDisk, func() time.Time { return s.now }); err != nil {
		s.Fatal(err)
	}
}

func generation(wasm, sidecar string) Generation {
	g := Generation{Wasm: sum([]byte(wasm)), Version: "1.0", Since: start}
	if sidecar != "" {
		g.Sidecar, g.HasSidecar = []byte(sidecar), true
	}
	return g
}

func (s *shelves) promote(name, wasm, sidecar string) Record {
	s.Helper()
	r, err := s.Promote(name, generation(wasm, sidecar), []byte(wasm))
	if err != nil {
		s.Fatal(err)
	}
	return r
}

// says is a record in short: what runs, then what ran.
func says(r Record) string {
	show := func(g *Generation) string { return fmt.Sprintf("%d:%.4s%s", g.Number, g.Wasm, g.Sidecar) }
	text := "-"
	if r.Current != nil {
		text = show(r.Current)
	}
	for i := range r.Earlier {
		text += " " + show(&r.Earlier[i])
	}
	return text
}

// want checks a record, also after the history was opened again.
func (s *shelves) want(name, want string) {
	s.Helper()
	before, _ := s.Record(name)
	if got := says(before); got != want {
		s.Errorf("the record is %q, want %q", got, want)
	}
	s.reopen()
	if len(s.Problems()) > 0 {
		s.Errorf("problems: %q", s.Problems())
	}
	if after, _ := s.Record(name); !reflect.DeepEqual(before, after) {
		s.Errorf("opened again, the record is\n%+v, was\n%+v", after, before)
	}
}

// wantModules checks which modules are on the disk.
func (s *shelves) wantModules(want ...string) {
	s.Helper()
	list, err := os.ReadDir(filepath.Join(s.dir, blobs))
	if err != nil {
		s.Fatal(err)
	}
	if len(list) != len(want) {
		s.Errorf("%d modules are kept, want %d", len(list), len(want))
	}
	for _, wasm := range want {
		if got, err := s.Wasm(sum([]byte(wasm))); err != nil || string(got) != wasm {
			s.Errorf("module %q: %q, %v", wasm, got, err)
		}
	}
}

func id(wasm string) string { return sum([]byte(wasm))[:4] }

func TestPromote(t *testing.T) {
	s := fresh(t)
	s.promote("p", "a", "")
	s.want("p", "1:"+id("a"))
	s.promote("p", "b", "")
	s.promote("p", "b", "x")
	s.want("p", fmt.Sprintf("3:%sx 2:%s 1:%s", id("b"), id("b"), id("a")))

	// The same again changes nothing.
	info, err := os.Stat(s.path("p"))
	if err != nil {
		t.Fatal(err)
	}
	if r := s.promote("p", "b", "x"); r.Last != 3 {
		t.Errorf("got number %d for what runs already", r.Last)
	}
	if again, err := os.Stat(s.path("p")); err != nil || !os.SameFile(info, again) {
		t.Errorf("the record was written again, %v", err)
	}

	// What ran earlier has a new number, and is there once.
	s.promote("p", "a", "")
	s.want("p", fmt.Sprintf("4:%s 3:%sx 2:%s", id("a"), id("b"), id("b")))
	s.wantModules("a", "b")

	// Three earlier ones are kept.
	s.promote("p", "c", "")
	s.promote("p", "d", "")
	s.want("p", fmt.Sprintf("6:%s 5:%s 4:%s 3:%sx", id("d"), id("c"), id("a"), id("b")))
	s.wantModules("a", "b", "c", "d")
	s.promote("p", "e", "")
	s.wantModules("a", "c", "d", "e")

	g := generation("f", "")
	g.Number = 20
	if r, err := s.Promote("p", g, []byte("f")); err != nil || r.Current.Number != 20 || r.Last != 20 || r.Earlier[0].Until != start {
		t.Errorf("%+v, %v", r, err)
	}
	g = generation("g", "")
	g.Number = 20
	if _, err := s.Promote("p", g, []byte("g")); err == nil {
		t.Error("a number was given twice")
	}
}

func TestRetire(t *testing.T) {
	s := fresh(t)
	if err := s.Deactivate("p"); err != nil || len(s.Names()) != 0 {
		t.Errorf("%v, names %q", err, s.Names())
	}
	s.promote("p", "a", "")
	s.now = start.Add(time.Hour)
	for range 2 {
		if err := s.Deactivate("p"); err != nil {
			t.Fatal(err)
		}
		s.want("p", "- 1:"+id("a"))
	}
	if r, _ := s.Record("p"); r.Earlier[0].Until != s.now {
		t.Errorf("it ran until %v, want %v", r.Earlier[0].Until, s.now)
	}
	s.promote("p", "a", "")
	s.want("p", "2:"+id("a"))
	s.wantModules("a")
}

// Names share modules; one that nobody names is deleted.
func TestModulesAreShared(t *testing.T) {
	s := fresh(t)
	s.promote("p", "a", "")
	s.promote("q", "a", "x")
	s.wantModules("a")
	for _, wasm := range []string{"b", "c", "d", "e"} {
		s.promote("p", wasm, "")
	}
	s.wantModules("a", "b", "c", "d", "e")
	for _, wasm := range []string{"b", "c", "d", "e"} {
		s.promote("q", wasm, "")
	}
	s.wantModules("b", "c", "d", "e")
}

func TestRefuse(t *testing.T) {
	s := fresh(t)
	if err := s.Refuse("p", nil); err != nil || len(s.Names()) != 0 {
		t.Errorf("%v, names %q", err, s.Names())
	}
	refused := &Refused{Wasm: "w", Sidecar: "s", Reason: strings.Repeat("é", maxReason), At: start}
	if err := s.Refuse("p", refused); err != nil {
		t.Fatal(err)
	}
	s.want("p", "-")
	r, _ := s.Record("p")
	if r.Refused == nil || r.Refused.Wasm != "w" || r.Refused.Sidecar != "s" || r.Refused.Reason != strings.Repeat("é", maxReason/2) || r.Refused.At != start {
		t.Errorf("got %+v", r.Refused)
	}
	// It is the same refusal later.
	later := *r.Refused
	later.At = start.Add(time.Hour)
	if err := s.Refuse("p", &later); err != nil {
		t.Fatal(err)
	}
	if r, _ := s.Record("p"); r.Refused.At != start {
		t.Errorf("refused at %v", r.Refused.At)
	}
	s.promote("p", "a", "")
	if err := s.Refuse("p", nil); err != nil {
		t.Fatal(err)
	}
	s.want("p", "1:"+id("a"))
	if r, _ := s.Record("p"); r.Refused != nil {
		t.Errorf("got %+v", r.Refused)
	}
}

func TestRefusesNonsense(t *testing.T) {
	s := fresh(t)
	good := generation("a", "x")
	change := func(f func(*Generation)) Generation { g := good; f(&g); return g }
	for name, test := range map[string]struct {
		name string
		g    Generation
		want string
	}{
		"name":             {"../p", good, `"../p" is not the name`},
		"no name":          {"", good, "is not the name"},
		"other module":     {"p", change(func(g *Generation) { g.Wasm = sum([]byte("b")) }), "has the SHA-256"},
		"no sum":           {"p", change(func(g *Generation) { g.Wasm = "../../x" }), "not the SHA-256"},
		"large side-car":   {"p", change(func(g *Generation) { g.Sidecar = make([]byte, maxSidecar+1) }), "1048577 bytes"},
		"side-car or none": {"p", change(func(g *Generation) { g.HasSidecar = false }), "where none should be"},
		"version":          {"p", change(func(g *Generation) { g.Version = strings.Repeat("1", 257) }), "257 bytes"},
	} {
		if _, err := s.Promote(test.name, test.g, []byte("a")); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	if err := s.Refuse("a/b", &Refused{}); err == nil {
		t.Error("took a name with a path")
	}
	if _, err := s.Wasm("../p"); err == nil {
		t.Error("took a path for a sum")
	}
	if len(s.Names()) > 0 {
		t.Errorf("names %q", s.Names())
	}
	s.wantModules()
}

// A copy does not change when the record does, nor the other way round.
func TestRecordIsACopy(t *testing.T) {
	s := fresh(t)
	s.promote("p", "a", "")
	s.promote("p", "b", "")
	if err := s.Refuse("p", &Refused{Reason: "r", At: start}); err != nil {
		t.Fatal(err)
	}
	r, _ := s.Record("p")
	r.Current.Number, r.Earlier[0].Number, r.Refused.Reason = 99, 99, "x"
	s.want("p", fmt.Sprintf("2:%s 1:%s", id("b"), id("a")))
	if r, _ := s.Record("p"); r.Refused.Reason != "r" {
		t.Error("the reason was changed from outside")
	}
}

func TestNamesAreBounded(t *testing.T) {
	s := fresh(t)
	// Without the disk: a thousand records cost a while.
	for i := range maxNames {
		name := fmt.Sprintf("p%d", i)
		g := generation("a", "")
		s.records[name] = &Record{Name: name, Last: 1, Current: &g}
	}
	if _, err := s.Promote("more", generation("a", ""), []byte("a")); err == nil || !strings.Contains(err.Error(), "1000 plugins") {
		t.Errorf("got %v", err)
	}
	for i, name := range []string{"p7", "p8"} {
		s.now = start.Add(time.Duration(i) * time.Hour)
		if err := s.Deactivate(name); err != nil {
			t.Fatal(err)
		}
	}
	s.promote("more", "a", "")
	names := s.Names()
	if len(names) != maxNames || !slices.Contains(names, "more") || slices.Contains(names, "p7") || !slices.Contains(names, "p8") {
		t.Error("the name that has not run for the longest time makes room")
	}
	if _, err := os.Stat(s.path("p7")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its record is there: %v", err)
	}
}

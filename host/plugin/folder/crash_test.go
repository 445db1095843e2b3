package folder

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

var errCrash = errors.New("crash")

// crashing does n steps, and no more. It reports the step at which it ends as
// failed; done says whether that step took effect all the same. Half of a file
// lies beside it, as a crash leaves it.
func crashing(n int, done bool) (disk, *bool) {
	crashed := new(bool)
	step := func(path string, data []byte, act func() error) error {
		if n--; n >= 0 {
			return act()
		}
		if !*crashed {
			*crashed = true
			half := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".1.tmp")
			if err := os.WriteFile(half, data[:len(data)/2], 0o600); err != nil {
				return err
			}
			if done {
				return errors.Join(act(), errCrash)
			}
		}
		return errCrash
	}
	return disk{
		write: func(path string, data []byte) error {
			return step(path, data, func() error { return realDisk.write(path, data) })
		},
		remove: func(path string) error { return step(path, nil, func() error { return realDisk.remove(path) }) },
	}, crashed
}

// After a crash at any step there is the record before the change or the one
// after it, and every module that it names.
func TestCrash(t *testing.T) {
	changes := map[string]func(s *History) error{
		"first": func(s *History) error {
			_, err := s.Promote("new", generation("n", "x"), []byte("n"))
			return err
		},
		"promote": func(s *History) error {
			_, err := s.Promote("p", generation("e", "x"), []byte("e"))
			return err
		},
		"roll back": func(s *History) error {
			_, err := s.Promote("p", generation("b", ""), []byte("b"))
			return err
		},
		"retire": func(s *History) error { return s.Deactivate("p") },
		"refuse": func(s *History) error { return s.Refuse("p", &Refused{Wasm: "w", Reason: "r", At: start}) },
	}
	for name, change := range changes {
		for _, done := range []bool{false, true} {
			for n := 0; ; n++ {
				crashed := false
				t.Run(fmt.Sprintf("%s, %d steps, done %v", name, n, done), func(t *testing.T) {
					crashed = crash(t, change, n, done)
				})
				if !crashed || t.Failed() {
					if n == 0 {
						t.Error("no step was made")
					}
					break
				}
			}
		}
	}
}

func crash(t *testing.T, change func(*History) error, n int, done bool) bool {
	s := fresh(t)
	for _, wasm := range []string{"a", "b", "c", "d"} {
		s.promote("p", wasm, "")
	}
	s.promote("q", "c", "y")
	before := recordsOf(s.History)
	d, crashed := crashing(n, done)
	s.disk = d
	err := change(s.History)
	after := recordsOf(s.History)
	if (err == nil) == reflect.DeepEqual(before, after) {
		t.Errorf("error %v, records %v", err, after)
	}

	s.reopen()
	got := recordsOf(s.History)
	if err == nil && !reflect.DeepEqual(got, after) {
		t.Errorf("what was durable is lost:\n%v, want\n%v", got, after)
	}
	if err != nil && !reflect.DeepEqual(got, before) {
		// It must be what the change leads to without a crash.
		s.disk = realDisk
		if err := change(s.History); err != nil {
			t.Error(err)
		}
		if again := recordsOf(s.History); !reflect.DeepEqual(got, again) {
			t.Errorf("neither before nor after:\n%v, want\n%v", got, again)
		}
	}
	if len(s.Problems()) > 0 {
		t.Errorf("problems: %q", s.Problems())
	}
	wantExactly(t, s)
	// The change can be made now.
	if err := change(s.History); err != nil {
		t.Error(err)
	}
	wantExactly(t, s)
	return *crashed
}

func recordsOf(s *History) map[string]Record {
	list := map[string]Record{}
	for _, name := range s.Names() {
		list[name], _ = s.Record(name)
	}
	return list
}

// wantExactly checks that the modules that records name are there, and nothing
// else.
func wantExactly(t *testing.T, s *shelves) {
	t.Helper()
	named := s.named()
	for sha := range named {
		if _, err := s.Wasm(sha); err != nil {
			t.Error(err)
		}
	}
	list, err := os.ReadDir(filepath.Join(s.dir, blobs))
	if err != nil || len(list) != len(named) {
		t.Errorf("%d modules are kept, %d are named, %v", len(list), len(named), err)
	}
	if left, err := filepath.Glob(filepath.Join(s.dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// What is damaged is set aside, and the other names are there.
func TestDamagedRecord(t *testing.T) {
	s := fresh(t)
	s.promote("p", "a", "")
	s.promote("q", "b", "")
	good, err := os.ReadFile(s.path("p"))
	if err != nil {
		t.Fatal(err)
	}
	replace := func(old, by string) []byte {
		text := bytes.Replace(good, []byte(old), []byte(by), 1)
		if bytes.Equal(text, good) {
			t.Fatalf("there is no %q in %s", old, good)
		}
		return text
	}
	for name, text := range map[string][]byte{
		"empty":         nil,
		"half":          good[:len(good)/2],
		"zeroes":        make([]byte, len(good)),
		"other name":    replace(`"p"`, `"q"`),
		"number":        replace(`"number": 1`, `"number": 2`),
		"no number":     replace(`"number": 1`, `"number": 0`),
		"path":          replace(sum([]byte("a")), "../"+sum([]byte("a"))[3:]),
		"type":          replace(`"last": 1`, `"last": "1"`),
		"many earlier":  replace(`"earlier": null`, `"earlier": [{},{},{},{}]`),
		"nested":        bytes.Repeat([]byte{'['}, 1<<20),
		"large":         bytes.Repeat([]byte{' '}, maxRecord+1),
		"earlier empty": replace(`"earlier": null`, `"earlier": [{}]`),
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(s.path("p"), text, 0o600); err != nil {
				t.Fatal(err)
			}
			s.T = t
			s.reopen()
			if _, ok := s.Record("p"); ok || len(s.Problems()) != 1 || !strings.Contains(s.Problems()[0], "record of plugin p is damaged") {
				t.Errorf("problems %q", s.Problems())
			}
			aside, err := os.ReadFile(s.path("p") + ".damaged")
			if err != nil || !bytes.Equal(aside, text) {
				t.Errorf("set aside: %d bytes, %v", len(aside), err)
			}
			// Its module stays until the history is opened without a problem.
			s.wantModules("a", "b")
			s.want("q", "1:"+id("b"))
			s.wantModules("b")
			s.promote("p", "a", "")
			s.want("p", "1:"+id("a"))
		})
	}
}

func TestDamagedModule(t *testing.T) {
	s := fresh(t)
	s.promote("p", "a", "")
	s.promote("p", "b", "")
	s.promote("p", "c", "")
	damaged := s.blob(sum([]byte("c")))
	if err := os.WriteFile(damaged, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.blob(sum([]byte("b")))); err != nil {
		t.Fatal(err)
	}
	s.reopen()
	if len(s.Problems()) != 1 || !strings.Contains(s.Problems()[0], "generation 2 of plugin p is lost") {
		t.Errorf("problems %q", s.Problems())
	}
	if _, err := s.Wasm(sum([]byte("c"))); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("got %v", err)
	}
	// The module comes back with the plugin.
	s.promote("p", "c", "")
	s.wantModules("a", "c")
	r, _ := s.Record("p")
	if got, want := says(r), fmt.Sprintf("3:%s 1:%s", id("c"), id("a")); got != want {
		t.Errorf("the record is %q, want %q", got, want)
	}
}

func TestOpenHistory(t *testing.T) {
	s := fresh(t)
	for _, dir := range []string{s.dir, filepath.Join(s.dir, blobs)} {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", dir, info.Mode(), err)
		}
	}
	// Files of somebody else stay.
	theirs := []string{"README", "a b.json", filepath.Join(blobs, "x.wasm"), filepath.Join(blobs, "README")}
	for _, file := range theirs {
		if err := os.WriteFile(filepath.Join(s.dir, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.reopen()
	for _, file := range theirs {
		if _, err := os.Stat(filepath.Join(s.dir, file)); err != nil {
			t.Error(err)
		}
	}
	if len(s.Names()) > 0 || len(s.Problems()) > 0 {
		t.Errorf("names %q, problems %q", s.Names(), s.Problems())
	}
	if _, err := OpenHistory(filepath.Join(s.dir, "README")); err == nil {
		t.Error("opened a file")
	}
	if _, err := openHistory(filepath.Join(s.dir, "none", "x"), realDisk, time.Now); err == nil {
		t.Error("made a folder in one that is not there")
	}
}

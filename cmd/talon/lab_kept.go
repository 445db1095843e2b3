package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"talon/cmd/internal/lab/engine"
	"talon/cmd/internal/lab/module"
	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/scenario"
	"talon/cmd/internal/shell"
	"talon/internal/durable"
)

// kept is run.json in a folder of results: all that it takes to make them again. The paths are
// relative to the folder.
type kept struct {
	Version    string       `json:"version"` // keptForm
	Talon      string       `json:"talon"`   // version of the program
	Command    []string     `json:"command"`
	Scenario   string       `json:"scenario"` // file
	Digest     string       `json:"digest"`   // of the scenario, before --set
	Strategies []keptModule `json:"strategies"`
	Throttles  []keptModule `json:"throttles,omitempty"`
	Set        []string     `json:"set,omitempty"`
	Config     []string     `json:"config,omitempty"`
	Level      string       `json:"level,omitempty"`
	Trace      string       `json:"trace,omitempty"`
	First      uint64       `json:"first_seed"`
	Seeds      int          `json:"seeds"`
	Shrink     int          `json:"shrink"`
}

// keptModule is a module, with its side-car if it has one.
type keptModule struct {
	Name   string `json:"name"`
	File   string `json:"file"`
	SHA256 string `json:"sha256"`
	Side   string `json:"sidecar_sha256,omitempty"` // empty: there is none
}

// sideCar is the file of the settings of a module.
func sideCar(file string) string { return strings.TrimSuffix(file, ".wasm") + ".toml" }

const (
	keptForm = "talon-lab-kept/1"
	keptFile = "run.json"
	runsFile = "runs.jsonl"
)

// keep writes what made the results of a folder: the scenario, the modules, the command, and how to
// cite it. It refuses a folder that has the results of another run.
func (o *labOptions) keep(dir string, path string, p *labPlan) error {
	s, text, err := scenario.Open(path)
	if err != nil {
		return err
	}
	k := kept{
		Version: keptForm, Talon: version(), Command: p.command, Scenario: s.Name + ".toml", Digest: s.Digest(), Set: o.set, Config: o.config,
		Level: o.level, Trace: p.Trace, First: p.First, Seeds: p.Seeds, Shrink: p.Shrink,
	}
	if !isPlainName(s.Name) {
		k.Scenario = "scenario.toml"
	}
	type file struct {
		name string
		text []byte
	}
	files := []file{{k.Scenario, text}}
	seen := map[string]bool{}
	for i := range p.Variants {
		for _, m := range []engine.Module{p.Variants[i].Strategy, p.Variants[i].Throttle} {
			wasm, ok := m.(*module.Wasm)
			if !ok {
				continue
			}
			list := &k.Strategies
			if m == p.Variants[i].Throttle {
				list = &k.Throttles
			}
			about := m.About()
			if key := about.Name + about.SHA256; seen[key] {
				continue
			} else {
				seen[key] = true
			}
			one := keptModule{Name: about.Name, File: filepath.Join("modules", strconv.Itoa(len(seen)), about.Name+".wasm"), SHA256: about.SHA256}
			files = append(files, file{one.File, wasm.Bytes()})
			if side, err := os.ReadFile(sideCar(wasm.File())); err == nil {
				one.Side = sum(side)
				files = append(files, file{sideCar(one.File), side})
			}
			*list = append(*list, one)
		}
	}
	if err := k.mayGoTo(dir); err != nil {
		return err
	}
	for _, f := range files {
		path := filepath.Join(dir, f.name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), durable.Write(path, f.text, 0o644)); err != nil {
			return err
		}
	}
	encoded, err := json.MarshalIndent(&k, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(durable.Write(filepath.Join(dir, keptFile), append(encoded, '\n'), 0o644),
		durable.Write(filepath.Join(dir, "CITATION.cff"), k.citation(s), 0o644))
}

// mayGoTo reports an error if a folder has the results of another run. The same run makes the same
// bytes, so it may go there again: after ^C, for example.
func (k *kept) mayGoTo(dir string) error {
	path := filepath.Join(dir, keptFile)
	before, err := readKept(dir)
	if _, gone := os.Stat(path); errors.Is(gone, fs.ErrNotExist) {
		path = filepath.Join(dir, runsFile)
		if _, gone := os.Stat(path); errors.Is(gone, fs.ErrNotExist) {
			return nil
		}
	}
	if err == nil {
		same := *before
		same.Command = k.Command // its words may differ: the name of the folder, the order of options
		if a, b := asJSON(&same), asJSON(k); bytes.Equal(a, b) {
			return nil
		}
	}
	return fmt.Errorf("%s has the results of another run (%s): want another folder for --out, or remove this one", dir, path)
}

func asJSON(k *kept) []byte {
	text, err := json.Marshal(k)
	if err != nil {
		panic(err) // it has texts and numbers only
	}
	return text
}

// isPlainName reports whether a name can be the name of a file.
func isPlainName(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
}

// citation writes how to cite the results, in the Citation File Format.
func (k *kept) citation(s *scenario.Scenario) []byte {
	var b bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	names := func(list []keptModule) string {
		var words []string
		for _, m := range list {
			words = append(words, fmt.Sprintf("%s (sha256 %.16s)", m.Name, m.SHA256))
		}
		return strings.Join(words, ", ")
	}
	quote := func(text string) string { return strconv.Quote(plain(text)) }
	line("cff-version: 1.2.0")
	line("message: If you use these results, cite them with this data.")
	line("type: dataset")
	line("title: %s", quote(fmt.Sprintf("Simulated runs of %s in the network %s", names(k.Strategies), s.Name)))
	line("abstract: %s", quote(fmt.Sprintf("%s from %d. Scenario %s, digest %s: %s. Throttles: %s. Command: %s. `talon lab rerun` makes them again.",
		counted(k.Seeds, "seed"), k.First, s.Name, k.Digest, s.Description, cmp.Or(names(k.Throttles), "none"), shell.Join(k.Command...))))
	line("version: %s", quote(k.Talon))
	line("authors:\n  - name: Put your name here")
	line("references:\n  - type: software\n    title: Talon\n    version: %s\n    authors:\n      - name: The authors of Talon", quote(k.Talon))
	return b.Bytes()
}

// readKept reads what made the results of a folder.
func readKept(dir string) (*kept, error) {
	text, err := os.ReadFile(filepath.Join(dir, keptFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no %s: want a folder that talon lab run --out made", dir, keptFile)
	}
	if err != nil {
		return nil, err
	}
	var k kept
	if err := json.Unmarshal(text, &k); err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(dir, keptFile), err)
	}
	if k.Version != keptForm {
		return nil, fmt.Errorf("%s has the form %.40q: this version reads %s", filepath.Join(dir, keptFile), k.Version, keptForm)
	}
	for _, file := range append([]string{k.Scenario}, k.files()...) {
		if !filepath.IsLocal(file) {
			return nil, fmt.Errorf("%s names the file %.100q: want one in the folder", filepath.Join(dir, keptFile), file)
		}
	}
	return &k, nil
}

// files returns the files of the modules.
func (k *kept) files() (list []string) {
	for _, m := range append(append([]keptModule{}, k.Strategies...), k.Throttles...) {
		list = append(list, m.File)
	}
	return list
}

// changed says in which parts a folder is not any more what it was, and whether the program is
// another one.
func (k *kept) changed(dir string) (list []string, err error) {
	if k.Talon != version() {
		list = append(list, fmt.Sprintf("the engine is that of Talon %s, it was %s", version(), k.Talon))
	}
	s, _, err := scenario.Open(filepath.Join(dir, k.Scenario))
	if err != nil {
		return nil, err
	}
	if s.Digest() != k.Digest {
		list = append(list, fmt.Sprintf("the scenario %s is another one: digest %s, it was %s (or this version reads it otherwise)", k.Scenario, s.Digest(), k.Digest))
	}
	for _, m := range append(append([]keptModule{}, k.Strategies...), k.Throttles...) {
		wasm, err := os.ReadFile(filepath.Join(dir, m.File))
		if err != nil {
			return nil, err
		}
		if sum(wasm) != m.SHA256 {
			list = append(list, fmt.Sprintf("the module %s is another one: sha256 %.12s, it was %.12s", m.File, sum(wasm), m.SHA256))
		}
		side, err := os.ReadFile(filepath.Join(dir, sideCar(m.File)))
		if err == nil && sum(side) != m.Side || err != nil && m.Side != "" {
			list = append(list, fmt.Sprintf("the side-car %s is another one", sideCar(m.File)))
		}
	}
	return list, nil
}

// sum is the sha256 of bytes, in hex.
func sum(b []byte) string {
	hash := sha256.Sum256(b)
	return hex.EncodeToString(hash[:])
}

// differences says what differs between the lines of two files of runs: how many, and the first.
func differences(before, after []byte) string {
	a, b := bytes.Split(bytes.TrimSuffix(before, []byte("\n")), []byte("\n")), bytes.Split(bytes.TrimSuffix(after, []byte("\n")), []byte("\n"))
	n, first := 0, ""
	for i := range max(len(a), len(b)) {
		switch {
		case i < len(a) && i < len(b) && bytes.Equal(a[i], b[i]):
			continue
		case n == 0 && i < len(a) && i < len(b):
			first = lineDifference(a[i], b[i])
		}
		n++
	}
	if len(a) != len(b) {
		return fmt.Sprintf("%s, there were %s", counted(len(b), "run"), counted(len(a), "run"))
	}
	return fmt.Sprintf("%s of %d differ, the first: %s", counted(n, "run"), len(a), first)
}

// lineDifference names a run and the measures in which it differs.
func lineDifference(before, after []byte) string {
	read := func(line []byte) (r *result.Run, ok bool) {
		for run, err := range result.Read(bytes.NewReader(append(bytes.Clone(line), '\n'))) {
			return run, err == nil
		}
		return nil, false
	}
	a, ok := read(before)
	b, ok2 := read(after)
	if !ok || !ok2 {
		return "a line that cannot be read"
	}
	var words []string
	for _, m := range result.Measures() {
		x, _ := a.Measures.Get(m)
		if y, _ := b.Measures.Get(m); x != y {
			words = append(words, fmt.Sprintf("%s %v, it was %v", m, y, x))
		}
	}
	if len(words) == 0 {
		words = append(words, "the measures are the same")
	}
	return fmt.Sprintf("%s, seed %d: %s", a.Variant(), a.Seed, strings.Join(words[:min(4, len(words))], "; "))
}

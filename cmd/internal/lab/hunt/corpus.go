package hunt

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/scenario"
	"talon/cmd/internal/shell"
	"talon/internal/durable"
)

// Found is a broken invariant, or a module that failed, as a line of the corpus.
type Found struct {
	Scenario  string         `json:"scenario"` // file in the corpus
	Seed      uint64         `json:"seed"`
	Strategy  string         `json:"strategy"`
	Throttle  string         `json:"throttle,omitempty"`
	Invariant string         `json:"invariant"`
	At        result.Seconds `json:"at"`
	Text      string         `json:"text"`
	Events    int            `json:"events,omitempty"` // of the shortest part that shows it
	Faults    int            `json:"faults,omitempty"`
	Modules   []string       `json:"modules,omitempty"` // options of talon lab run; none: the names above
}

// String is the line for people. It has the command that shows it again.
func (f *Found) String() string {
	modules, options := f.Strategy, []string{"--strategy", f.Strategy}
	if f.Throttle != "" {
		modules += " + " + f.Throttle
		options = append(options, "--throttle", f.Throttle)
	}
	if len(f.Modules) > 0 {
		options = f.Modules
	}
	command := slices.Concat([]string{"talon", "lab", "run", f.Scenario}, options, []string{"--seed", strconv.FormatUint(f.Seed, 10), "--seeds", "1"})
	return fmt.Sprintf("%s: %s after %v: %.160s (%s, %s): %s", modules, f.Invariant, f.At.Duration(), f.Text,
		counted(f.Events, "event"), counted(f.Faults, "fault"), shell.Join(command...))
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// FoundBy returns what a run found; nil: nothing.
func FoundBy(r *result.Run) *Found {
	if r.End.How != result.BrokenInvariant && r.End.How != result.ModuleFailed && len(r.Findings) == 0 {
		return nil
	}
	f := &Found{Seed: r.Seed, Strategy: r.Strategy.Name, Invariant: string(r.End.How), At: r.End.At, Text: r.End.Reason}
	if r.Throttle != nil {
		f.Throttle = r.Throttle.Name
	}
	for _, finding := range r.Findings {
		f.Invariant, f.At, f.Text = finding.Invariant, finding.At, finding.Text
		if p := finding.Prefix; p != nil {
			f.Events, f.Faults = len(p.Events), len(p.Faults)
			break
		}
	}
	return f
}

// Corpus is a folder with what was found: findings.jsonl, the scenarios, and the next seed.
type Corpus struct {
	dir   string
	Found []Found
	Next  uint64 // seed
}

const maxLine = 1 << 20

// Open reads a corpus, or makes an empty one.
func Open(dir string) (*Corpus, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	c := &Corpus{dir: dir, Next: 1}
	text, err := os.ReadFile(c.path("next"))
	switch {
	case err == nil:
		if c.Next, err = strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err != nil {
			return nil, fmt.Errorf("read the next seed from %s: %w", c.path("next"), err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	text, err = os.ReadFile(c.path("findings.jsonl"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		var f Found
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", c.path("findings.jsonl"), n, err)
		}
		c.Found = append(c.Found, f)
	}
	return c, lines.Err()
}

func (c *Corpus) path(name string) string { return filepath.Join(c.dir, name) }

// Scenario reads the scenario of a finding.
func (c *Corpus) Scenario(f *Found) (*scenario.Scenario, error) {
	s, _, err := scenario.Open(c.path(filepath.Base(f.Scenario)))
	return s, err
}

// Add keeps what was found in a scenario.
func (c *Corpus) Add(f *Found, s *scenario.Scenario) error {
	f.Scenario = c.path(s.Name + ".toml")
	if err := durable.Write(f.Scenario, s.Text(), 0o644); err != nil {
		return err
	}
	line, err := json.Marshal(f)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(c.path("findings.jsonl"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	c.Found = append(c.Found, *f)
	return errors.Join(err, file.Close())
}

// Tried notes that a seed was tried.
func (c *Corpus) Tried(seed uint64) error {
	c.Next = max(c.Next, seed+1)
	return durable.Write(c.path("next"), fmt.Appendln(nil, c.Next), 0o644)
}

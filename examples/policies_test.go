package examples

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"talon/host/plugin/sidecar"
	"talon/sdk/abi/manifest"
)

// TestReferenceOfPolicies holds the reference page against the bundled policies: it
// names each setting with its default, each rule, and what the manifest asks for, and
// the side-cars that it shows are ones that the policies take.
func TestReferenceOfPolicies(t *testing.T) {
	page, err := os.ReadFile("../docs/reference-policies.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, section := range strings.Split(string(page), "\n## ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		sections[name] = text
	}
	paths, err := filepath.Glob("../plugins/*/manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		m, err := manifest.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(m.Worlds, "policy") {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			section, ok := sections[m.Name]
			if !ok {
				t.Fatal("the page has no section about it")
			}
			delete(sections, m.Name)
			for _, want := range facts(m) {
				if !strings.Contains(section, want) {
					t.Errorf("the page does not say %s", want)
				}
			}
			if row := fmt.Sprintf("| [`%s`](#%s) | %d | %s |", m.Name, m.Name, m.Place, strings.Join(m.Functions, ", ")); !strings.Contains(string(page), row) {
				t.Errorf("the table at the top has no row that begins with %s", row)
			}
			for _, rule := range rules(t, m, filepath.Dir(path)) {
				if !strings.Contains(section, "`"+rule+"`") {
					t.Errorf("the page does not name the rule %s", rule)
				}
			}
			for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| `").FindAllStringSubmatch(settingsOf(section), -1) {
				if !slices.ContainsFunc(m.Config, func(s manifest.Setting) bool { return s.Key == row[1] }) {
					t.Errorf("the page has the setting %s, the manifest has not", row[1])
				}
			}
			_, example, _ := strings.Cut(section, "```toml\n")
			example, _, _ = strings.Cut(example, "```")
			example = strings.NewReplacer("npub1…", npub, "<pubkey>", strings.Repeat("ab", 32)).Replace(example)
			file, err := sidecar.Parse([]byte(example))
			if err != nil {
				t.Fatalf("the side-car that the page shows: %v", err)
			}
			if _, err := m.Resolve(file.Config); err != nil || len(file.Config) == 0 {
				t.Errorf("the side-car that the page shows: %v", err)
			}
		})
	}
	for name := range sections {
		t.Errorf("the page has a section %s, which is no bundled policy", name)
	}
}

const npub = "npub1zutzeysacnf9rru6zqwmxd54mud0k44tst6l70ja5mhv8jjumytsd2x7nu"

// facts are what the page must say of a manifest, as it writes it.
func facts(m *manifest.Manifest) []string {
	list := []string{
		"Functions: `" + strings.Join(m.Functions, "`, `") + "`.",
		fmt.Sprintf("Place: %d.", m.Place),
		fmt.Sprintf("%d MiB", m.Budgets.MemoryBytes>>20),
	}
	capabilities := "none"
	if len(m.Capabilities) > 0 {
		capabilities = "`" + strings.Join(m.Capabilities, "` `") + "`"
	}
	list = append(list, "Capabilities: "+capabilities+".")
	for i := range m.Config {
		s := &m.Config[i]
		list = append(list, fmt.Sprintf("| `%s` | `%s` | %s", s.Key, defaultOf(s), s.Help))
	}
	return list
}

// defaultOf writes a default as in TOML.
func defaultOf(s *manifest.Setting) string {
	value := s.Default
	if value == nil {
		switch s.Type {
		case manifest.TypeStrings, manifest.TypeInts:
			return "[]"
		case manifest.TypeString:
			return `""`
		case manifest.TypeBool:
			return "false"
		}
		return "0"
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(strings.TrimSpace(b.String()), `","`, `", "`)
}

// settingsOf is the table of settings of a section.
func settingsOf(section string) string {
	_, table, _ := strings.Cut(section, "| setting |")
	table, _, _ = strings.Cut(table, "| rule |")
	return table
}

var ruleInSource = regexp.MustCompile(`(?:By\(|refuse\(|hold\(|[a-z]Limits?\(cfg, "[a-z_]+", |reject\([^"\n]*, |reject\("invalid: "\+err.Error\(\)\+" \(d tag\)", )"([a-z][a-z-]+)"`)

// rules are the codes that the sources and the vectors of a policy have.
func rules(t *testing.T, m *manifest.Manifest, dir string) (list []string) {
	t.Helper()
	for _, v := range m.Vectors {
		if v.Want.Rule != "" {
			list = append(list, v.Want.Rule)
		}
	}
	sources, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range ruleInSource.FindAllSubmatch(text, -1) {
			list = append(list, string(found[1]))
		}
	}
	if slices.Sort(list); len(list) == 0 {
		t.Error("the sources have no rule")
	}
	return slices.Compact(list)
}

package plugintest

import (
	"os/exec"
	"testing"
)

func TestScript(t *testing.T) {
	const page = "# A page\n\nThe text is `a/b.txt`:\n\n```json\n{\"a\": \"$HOME\"}\n```\n\nNot a file:\n\n```go\nx\n```\n\n```sh\ncat a/b.txt\nls\n"
	for name, test := range map[string]struct {
		more, want string
		fails      bool
	}{
		"files and commands":   {"", "{\"a\": \"$HOME\"}\na\n", false},
		"refused":              {"false    # refused\n", "{\"a\": \"$HOME\"}\na\n", false},
		"not refused":          {"true    # refused\n", "", true},
		"a command that fails": {"false\necho no\n", "", true},
	} {
		cmd := exec.Command("sh", "-e", "-c", Script(page+test.more+"```\n"))
		cmd.Dir = t.TempDir()
		out, err := cmd.Output()
		if (err != nil) != test.fails || !test.fails && string(out) != test.want {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
}

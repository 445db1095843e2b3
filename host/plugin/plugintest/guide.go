package plugintest

import (
	"fmt"
	"regexp"
	"strings"
)

// before is a line that ends with the name of a file, whose text follows.
var before = regexp.MustCompile("`([^`]+)`:$")

// Script makes one shell script of a page of the documentation, for an empty folder: it
// writes the files whose names stand before their text, and gives the commands as they are.
// A background command (one that ends with &) ends with the script. The page itself must
// wait until it serves. A command of which the page says "# refused" must fail.
func Script(page string) string {
	var script strings.Builder
	fmt.Fprintln(&script, `relays=; trap 'for r in $relays; do kill $r 2>/dev/null && wait $r || true; done' EXIT; trap 'exit 1' TERM`)
	blocks := strings.Split(page, "\n```")
	for i := 0; i+1 < len(blocks); i += 2 {
		lines := strings.Split(strings.TrimSpace(blocks[i]), "\n")
		named := before.FindStringSubmatch(lines[len(lines)-1])
		language, block, _ := strings.Cut(blocks[i+1], "\n")
		switch {
		case language == "sh":
			for line := range strings.Lines(block + "\n") {
				script.WriteString(command(line))
			}
		case named != nil:
			fmt.Fprintf(&script, "mkdir -p \"$(dirname '%s')\"\ncat > '%[1]s' <<'EOF'\n%s\nEOF\n", named[1], block)
		}
	}
	return script.String()
}

func command(line string) string {
	text := strings.TrimSpace(line)
	switch {
	case strings.HasSuffix(text, "# refused"):
		return "if " + strings.TrimSuffix(text, "# refused") + "; then echo 'this was not refused' >&2; exit 1; fi\n"
	case strings.HasSuffix(text, " &"):
		return line + "relays=\"$relays $!\"\n"
	}
	return line
}

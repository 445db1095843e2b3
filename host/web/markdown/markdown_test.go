package markdown

import (
	"context"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"talon/host/web/text"
	"talon/internal/race"
)

// page has links as the pages of a repository have them.
var page = Options{
	Heading: 2, Anchors: "readme-",
	Href: func(destination string) string {
		u, err := url.Parse(destination)
		switch {
		case err != nil || u.User != nil || strings.ContainsAny(destination, " \\\n\t"):
			return ""
		case u.Scheme == "https" && u.Host != "":
			return u.String()
		case u.Scheme == "" && u.Host == "" && u.Path != "":
			return "/blob/" + strings.TrimLeft(u.EscapedPath(), "/")
		}
		return ""
	},
	Image: func(destination string) string {
		if strings.Contains(destination, ":") || strings.HasPrefix(destination, "/") {
			return ""
		}
		return "/raw/" + url.PathEscape(destination)
	},
	Mention: func(code string) (label, href string) {
		if code == "npub1owl" {
			return "@Owl", "/npub1owl"
		}
		return "nostr:" + code, ""
	},
}

func TestRender(t *testing.T) {
	const rel = ` rel="nofollow ugc noopener noreferrer"`
	for _, tt := range []struct{ name, source, want string }{
		{"paragraph", "a *b* **c** ~~d~~ `e`", "<p>a <em>b</em> <strong>c</strong> <del>d</del> <code>e</code></p>\n"},
		{"break", "a  \nb", "<p>a<br>\nb</p>\n"},
		{"code", "```go\na<b\n```", "<pre tabindex=\"0\"><code>a&lt;b\n</code></pre>\n"},
		{"list", "1. a\n2. b", "<ol><li>a</li><li>b</li></ol>\n"},
		{"list from three", "3. a", "<ol start=\"3\"><li>a</li></ol>\n"},
		{"tasks", "- [ ] a\n- [x] b", "<ul><li>☐ a</li><li>☑ b</li></ul>\n"},
		{"headings", "# A b!\n### C\n# A b!", `<h2 id="readme-a-b">A b!</h2>` + "\n" + `<h3 id="readme-c">C</h3>` + "\n" + `<h2 id="readme-a-b-1">A b!</h2>` + "\n"},
		{"empty heading", "#\n", "\n"},
		{"table", "|a|b|\n|-|-:|\n|1|2|", `<div class="wide" tabindex="0"><table>` + "\n<thead>\n<tr>\n<th>a</th>\n" + `<th class="right">b</th>` + "\n</tr>\n</thead>\n<tbody>\n<tr>\n<td>1</td>\n" + `<td class="right">2</td>` + "\n</tr>\n</tbody>\n</table></div>\n"},
		{"link", "[a](https://x.example/b?c=1&d=2)", `<p><a href="https://x.example/b?c=1&amp;d=2"` + rel + ">a</a></p>\n"},
		{"link without a text", "[](https://x.example/)", `<p><a href="https://x.example/"` + rel + ">https://x.example/</a></p>\n"},
		{"relative link", "[a](docs/b.md)", `<p><a href="/blob/docs/b.md"` + rel + ">a</a></p>\n"},
		{"anchor", "[a](#A-b)", `<p><a href="#readme-a-b"` + rel + ">a</a></p>\n"},
		{"script", "[a](javascript:alert(1))", "<p>a</p>\n"},
		{"user in a link", "[a](https://good.example@evil.example/)", "<p>a</p>\n"},
		{"bare URL", "see https://x.example/a_(b). And (https://x.example/c)", `<p>see <a href="https://x.example/a_(b)"` + rel + `><bdi>https://x.example/a_(b)</bdi></a>. And (<a href="https://x.example/c"` + rel + "><bdi>https://x.example/c</bdi></a>)</p>\n"},
		{"URL in code", "`https://x.example`", "<p><code>https://x.example</code></p>\n"},
		{"URL in a word", "ahttps://x.example", "<p>ahttps://x.example</p>\n"},
		{"autolink", "<https://x.example/>", `<p><a href="https://x.example/"` + rel + ">https://x.example/</a></p>\n"},
		{"mention", "by nostr:npub1owl, nostr:npub1crow", `<p>by <a href="/npub1owl"` + rel + "><bdi>@Owl</bdi></a>, nostr:npub1crow</p>\n"},
		{"mention as a link", "[the owl](nostr:npub1owl)", `<p><a href="/npub1owl"` + rel + ">the owl</a></p>\n"},
		{"image here", "![b](a.png)", `<p><img src="/raw/a.png" alt="b" loading="lazy"></p>` + "\n"},
		{"image elsewhere", "![b](https://x.example/a.png)", `<p><a class="image" href="https://x.example/a.png"` + rel + ">b</a></p>\n"},
		{"image in a link", "[![b](https://x.example/a.png)](https://x.example)", `<p><a href="https://x.example"` + rel + `><span class="image">b</span></a></p>` + "\n"},
		{"html", "<p align=center>a<br>b <kbd>c</kbd></p>", `<p class="center">a<br>b <kbd>c</kbd></p>` + ""},
		{"html that is not allowed", "<form action=x><input name=a><b>c</b></form>", "<b>c</b>"},
		{"html that is not closed", "<details><summary>a</summary>b", "<details><summary>a</summary>b</details>"},
		{"html that closes too much", "</div></main></body>a", "a"},
		{"item without a list", "<li>a</li>", "a"},
		{"list without items", "<ul>a</ul>", "<ul><li>a</li></ul>"},
		{"script element", "<script>alert(1)</script>", ""},
		{"style", "<p style=\"position:fixed\" class=\"x\" id=\"y\" onclick=\"z\">a</p>", "<p>a</p>"},
		{"bidi", "a\u202eb&#x202e;`\u202e`", "<p>a⟨U+202E⟩b⟨U+202E⟩<code>⟨U+202E⟩</code></p>\n"},
		{"marks", "a" + strings.Repeat("\u0301", 9), "<p>a\u0301\u0301\u0301</p>\n"},
		{"control", "a\x1bb\x00", "<p>ab⟨U+FFFD⟩</p>\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := render(t.Context(), tt.source, page); err != nil || got != tt.want {
				t.Errorf("%q becomes\n%q, want\n%q (%v)", tt.source, got, tt.want, err)
			}
		})
	}
}

func TestNoOptions(t *testing.T) {
	source := "# a\n[a](https://x.example) https://x.example nostr:npub1owl ![a](b.png) [c](#a)"
	const want = "<h1>a</h1>\n<p>a https://x.example nostr:npub1owl <span class=\"image\">a</span> c</p>\n"
	if got := Render(t.Context(), source, Options{}); got != want {
		t.Errorf("%s", got)
	}
}

// patterns are texts on which parsers of Markdown are slow, deep or large.
var patterns = map[string]func(n int) string{
	"quotes":          times(">"),
	"quotes apart":    times("> "),
	"quoted lines":    times("> > > > > > > > > > > > > > > > > > > > a\n"),
	"lists":           times("- "),
	"list lines":      times("- a\n"),
	"ordered":         times("1. "),
	"staircase":       func(n int) string { return staircase(n, "- ") },
	"quote staircase": func(n int) string { return staircase(n, "> ") },
	"links":           times("[a]("),
	"brackets":        times("["),
	"bracket pairs":   times("[]"),
	"nested brackets": func(n int) string { return strings.Repeat("[", n/2) + strings.Repeat("]", n/2) },
	"nested links":    func(n int) string { return strings.Repeat("[", n/8) + "a" + strings.Repeat("](b)", n/8) },
	"images":          times("![a]("),
	"closing":         times("a]"),
	"stars":           times("*a "),
	"stars and bars":  times("*a_ "),
	"strong":          times("**a "),
	"delimiters":      times("*_"),
	"mixed":           times("a**b_c*"),
	"strikes":         times("~~a "),
	"single strikes":  times("~a"),
	"closers":         func(n int) string { return strings.Repeat("a**b", n/4) + strings.Repeat("c* ", n/3) },
	"ticks":           func(n int) string { return ticks(n) },
	"tick":            times("`a``"),
	"comments":        times("<!-- "),
	"instructions":    times("<?"),
	"data":            times("<![CDATA["),
	"declarations":    times("<!A "),
	"tags":            times("<a b='"),
	"tags apart":      times("<a "),
	"tags in a word":  times("x<a b=\""),
	"divs":            times("<div>"),
	"tables in html":  times("<table>"),
	"cells in html":   times("<td>"),
	"bold":            times("<b>"),
	"bold and links":  times("<b><a href=x>"),
	"headings html":   times("<h1><div>"),
	"details":         times("<details><summary>"),
	"definitions":     times("[a]: b\n"),
	"open titles":     times("[a]: b \"\n"),
	"titles":          func(n int) string { return numbered(n, "[%d]: b '\n") },
	"references":      func(n int) string { return "[a]: " + strings.Repeat("b", n/2) + "\n\n" + strings.Repeat("[a]", n/6) },
	"wide table": func(n int) string {
		return strings.Repeat("|a", n/8) + "\n" + strings.Repeat("|-", n/8) + "\n" + strings.Repeat("|\n", n/4)
	},
	"narrow table":    func(n int) string { return "|a|\n|-|\n" + strings.Repeat("|a|\n", n/5) },
	"tables":          times("|a|b|\n|-|-|\n|1|2|\n\n"),
	"many delimiters": func(n int) string { return strings.Repeat("|-|-|\n", n/6) },
	"escaped bars":    func(n int) string { return "|a|\n|-|\n" + strings.Repeat("|`\\|\\|\\|`\\||\n", n/14) },
	"entities":        times("&#x202e;"),
	"open entities":   times("&a"),
	"escapes":         times("\\*"),
	"headings":        times("# a\n"),
	"rules":           times("a\n=\n"),
	"fences":          times("```\na\n"),
	"open fences":     times("~~~ "),
	"spaces":          times(" "),
	"tabs":            times("\t"),
	"lines":           times("\n"),
	"indented":        times("    a\n"),
	"zero":            times("\x00"),
	"invisible":       times("\u202e"),
	"marks":           times("\u0301"),
	"broken":          times("\xff"),
	"urls":            times("http://a"),
	"urls apart":      times("http://a "),
	"url of brackets": func(n int) string { return "https://a/" + strings.Repeat(")", n) },
	"codes":           times("nostr:n1"),
	"colons":          times("http:"),
	"tasks":           times("- [ ] [ ] "),
	"autolinks":       times("<http://a"),
	"mails":           times("<a@"),
	"dashes":          times("- - a\n"),
	"html lines":      times("<div\n"),
	"slashes":         times("</a"),
}

func times(s string) func(int) string {
	return func(n int) string { return strings.Repeat(s, n/len(s)) }
}

func staircase(n int, mark string) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		b.WriteString(strings.Repeat(mark, i%200) + "a\n")
	}
	return b.String()[:n]
}

func ticks(n int) string {
	var b strings.Builder
	for i := 1; b.Len() < n; i++ {
		b.WriteString(strings.Repeat("`", i) + " ")
	}
	return b.String()[:n]
}

func numbered(n int, format string) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()[:n]
}

// TestCost bounds the CPU time of texts on which parsers are slow. It measures this thread alone,
// so that other work of the machine does not count.
func TestCost(t *testing.T) {
	const most = 250 // ms; without bounds some take 1,900, and more than a gigabyte
	for name, pattern := range patterns {
		t.Run(name, func(t *testing.T) {
			source := pattern(MaxBytes)
			source = source[:min(len(source), MaxBytes)]
			var page template.HTML
			spent := cpu(t, func() { page = Render(context.Background(), source, Options{}) })
			for range 2 { // other programs slow the processor: the least of three counts
				if spent.Milliseconds() > most*race.Factor {
					spent = min(spent, cpu(t, func() { page = Render(context.Background(), source, Options{}) }))
				}
			}
			t.Logf("%d bytes become %d in %v", len(source), len(page), spent)
			if spent.Milliseconds() > most*race.Factor {
				t.Errorf("%v of CPU time", spent)
			}
			tame(t, string(page))
		})
	}
}

// TestLargeTexts shows that long honest texts are not refused.
func TestLargeTexts(t *testing.T) {
	sections := func(s string) string { return strings.Repeat(s, 60_000/len(s)) }
	for name, source := range map[string]string{
		"prose":       sections("# A heading\n\nSome *words* in a paragraph, with `code` and a [link](https://x.example/a).\n\n"),
		"link list":   sections("- [name](https://x.example/some/path) - a description of *it*\n"),
		"changelog":   sections("* fix a thing ([#123](https://x.example/123)), thanks to [@x](https://x.example/x)\n"),
		"table":       "|a|b|c|\n|-|-|-|\n" + strings.Repeat("| some | cells | here |\n", 1500),
		"code":        "```\n" + sections("if a[i] * b[j] > `c` { return }\n") + "```\n",
		"references":  sections("See [the page][p] for more.\n\n") + "\n[p]: https://x.example\n",
		"html":        sections("<p align=\"center\"><b>a</b><br><a href=\"https://x.example\">b</a></p>\n\n"),
		"paragraph":   sections("Words and *more words* and **others** with snake_case_names and https://x.example/a URLs. "),
		"nested list": sections("- a\n  - b\n    - c\n      - d\n        - e\n"),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := render(t.Context(), source, page); err != nil {
				t.Error(err)
			}
		})
	}
}

// tame asks that HTML is closed, and has nothing but what the package promises.
func tame(t testing.TB, page string) {
	t.Helper()
	var open []string
	z := html.NewTokenizer(strings.NewReader(page))
	for {
		switch z.Next() {
		case html.ErrorToken:
			if len(open) > 0 {
				t.Fatalf("%v are not closed in\n%.2000s", open, page)
			}
			return
		case html.StartTagToken, html.SelfClosingTagToken:
			token := z.Token()
			if !slices.Contains(elements, token.Data) {
				t.Fatalf("an element %s in\n%.2000s", token.Data, page)
			}
			for _, a := range token.Attr {
				switch token.Data + " " + a.Key {
				case "a href", "img src":
					u, err := url.Parse(a.Val)
					if err != nil || u.Scheme != "https" && (u.Scheme != "" || u.Host != "" || !strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val, "#")) {
						t.Fatalf("%s leads to %q in\n%.2000s", token.Data, a.Val, page)
					}
				case "a rel", "a class", "span class", "img alt", "img loading", "ol start", "details open", "pre tabindex", "pre class", "div tabindex", "div class",
					"p class", "td class", "th class", "h1 class", "h2 class", "h3 class", "h4 class", "h5 class", "h6 class", "h1 id", "h2 id", "h3 id", "h4 id", "h5 id", "h6 id":
				default:
					t.Fatalf("an attribute %s of %s in\n%.2000s", a.Key, token.Data, page)
				}
			}
			if token.Data != "br" && token.Data != "hr" && token.Data != "img" {
				open = append(open, token.Data)
			}
		case html.EndTagToken:
			token := z.Token()
			if len(open) == 0 || open[len(open)-1] != token.Data {
				t.Fatalf("%s closes %v in\n%.2000s", token.Data, open, page)
			}
			open = open[:len(open)-1]
		case html.TextToken:
			for _, r := range string(z.Text()) {
				if text.Invisible(r) || r < ' ' && r != '\n' && r != '\t' {
					t.Fatalf("%U in\n%.2000s", r, page)
				}
			}
		default:
			t.Fatalf("%v in\n%.2000s", z.Token(), page)
		}
	}
}

func FuzzRender(f *testing.F) {
	for _, pattern := range patterns {
		f.Add(pattern(300))
	}
	for _, s := range hostile {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		got := string(Render(t.Context(), source, page))
		tame(t, got)
		if len(source) <= MaxBytes && len(got) > maxOutput {
			t.Errorf("%d bytes become %d", len(source), len(got))
		}
		tame(t, string(Plain(source)))
		Mentions(source, 10)
	})
}

// hostile are texts that try to become more than text.
var hostile = []string{
	"<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<svg/onload=alert(1)>", "<a href=\"javascript:alert(1)\">x</a>", "<a href=\" javascript:alert(1)\">x</a>",
	"<a href=\"java\nscript:alert(1)\">x</a>", "[x](javascript:alert`1`)", "[x](data:text/html,<script>alert(1)</script>)", "[x](vbscript:x)", "[x](//evil.example)",
	"[x](\\\\evil.example)", "[x](https://user@evil.example)", "![x](https://evil.example/a.png\"onerror=\"alert(1))", "![x\"onerror=\"alert(1)](a.png)", "<b onmouseover=alert(1)>x</b>",
	"<math><mi//xlink:href=\"data:x,<script>alert(4)</script>\">", "<table><td>a<form><input>", "<style>*{display:none}</style>", "<iframe src=//evil.example>", "<base href=//evil.example>",
	"<meta http-equiv=refresh content=0>", "<textarea><img title=\"</textarea><img src=x onerror=alert(1)>\">", "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">",
	"<svg><style><img src=x onerror=alert(1)></style></svg>", "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>", "`<img src=x onerror=alert(1)>`", "```\n</code></pre><script>x</script>\n```",
	"<p id=a class=b style=c title=d>", "<!--><img src=x onerror=alert(1)>-->", "<![CDATA[<img src=x onerror=alert(1)>]]>", "<?php echo 1 ?>", "&lt;script&gt;", "# <img src=x onerror=alert(1)>", "[a]: javascript:x\n[a]",
	"nostr:nsec1abcdef", "nostr:<b>", "[x](nostr:npub1\"onclick=x)", "|<b>|\n|-|\n|</td></table>|", "- <li></ul></ul>", "</div></div></main>", "<details><details></summary>", "\u202e\u2066\u200b", "<a href=x><a href=y>z</a></a>",
}

func TestHostile(t *testing.T) {
	for _, source := range hostile {
		t.Run(source, func(t *testing.T) {
			got := string(Render(t.Context(), source, page))
			tame(t, got)
			// Texts may look like anything. Tags may not.
			z := html.NewTokenizer(strings.NewReader(got))
			for z.Next() != html.ErrorToken {
				for _, a := range z.Token().Attr {
					if strings.HasPrefix(a.Key, "on") || strings.HasPrefix(a.Val, "javascript") || strings.HasPrefix(a.Val, "//") {
						t.Errorf("%s=%q", a.Key, a.Val)
					}
				}
			}
		})
	}
}

func TestMentions(t *testing.T) {
	got := Mentions("nostr:npub1owl, nostr:npub1owl (nostr:nevent1a) nostr:NPUB1X nostr:nsec1a nostr:", 9)
	if !slices.Equal(got, []string{"npub1owl", "nevent1a"}) {
		t.Errorf("%q", got)
	}
	if got := Mentions(strings.Repeat("nostr:npub1owl nostr:npub1crow ", 9), 1); len(got) != 1 {
		t.Errorf("%q", got)
	}
}

func BenchmarkRender(b *testing.B) {
	source := strings.Repeat("# A heading\n\nSome *words* in a paragraph, with `code` and a [link](https://x.example/a).\n\n- a\n- b\n\n```\ncode\n```\n\n", 80)
	b.SetBytes(int64(len(source)))
	b.ReportAllocs()
	for b.Loop() {
		Render(b.Context(), source, page)
	}
}

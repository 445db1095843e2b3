package code

import (
	"bytes"
	"path"
	"strings"
)

// language is what the scanner knows of a language.
type language struct {
	name          string
	lineComments  []string
	blockComments [][2]string
	quotes        string // characters that begin and end strings
	rawQuotes     string // those of quotes that may go over several lines
	escapesRaw    bool   // a backslash escapes in `…` as well
	tripleQuotes  bool
	runes         bool // '…' holds one character
	preprocessor  byte // begins a line of a preprocessor
	keys          bool // a word before : or = at the start of a line is a key
	markup        bool // <element>
	ignoreCase    bool
	keywords      map[string]bool
}

func words(list string) map[string]bool {
	m := make(map[string]bool)
	for _, w := range strings.Fields(list) {
		m[w] = true
	}
	return m
}

var (
	cComments    = [][2]string{{"/*", "*/"}}
	htmlComments = [][2]string{{"<!--", "-->"}}
	slashes      = []string{"//"}
	hashes       = []string{"#"}

	plainText = &language{}

	langC = &language{name: "C", lineComments: slashes, blockComments: cComments, quotes: `"'`, runes: true, preprocessor: '#',
		keywords: words(`auto break case char const continue default do double else enum extern float for goto if inline int long register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while _Bool bool true false NULL size_t ssize_t uint8_t uint16_t uint32_t uint64_t int8_t int16_t int32_t int64_t uintptr_t intptr_t`)}
	langCpp = &language{name: "C++", lineComments: slashes, blockComments: cComments, quotes: `"'`, runes: true, preprocessor: '#',
		keywords: words(`alignas alignof auto bool break case catch char class co_await co_return co_yield concept const const_cast consteval constexpr continue decltype default delete do double dynamic_cast else enum explicit export extern false final float for friend goto if inline int long mutable namespace new noexcept nullptr operator override private protected public register reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile while`)}
	langGo = &language{name: "Go", lineComments: slashes, blockComments: cComments, quotes: "\"'`", rawQuotes: "`", runes: true,
		keywords: words(`break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var any bool byte comparable complex64 complex128 error float32 float64 int int8 int16 int32 int64 rune string uint uint8 uint16 uint32 uint64 uintptr true false nil iota append cap clear close copy delete len make max min new panic print println recover`)}
	langRust = &language{name: "Rust", lineComments: slashes, blockComments: cComments, quotes: `"'`, rawQuotes: `"`, runes: true, preprocessor: '#',
		keywords: words(`as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type union unsafe use where while bool char f32 f64 i8 i16 i32 i64 i128 isize str u8 u16 u32 u64 u128 usize String Vec Option Result Some None Ok Err Box`)}
	langJava = &language{name: "Java", lineComments: slashes, blockComments: cComments, quotes: `"'`, tripleQuotes: true, preprocessor: '@',
		keywords: words(`abstract assert boolean break byte case catch char class const continue default do double else enum extends final finally float for goto if implements import instanceof int interface long native new package private protected public record return sealed short static strictfp super switch synchronized this throw throws transient try var void volatile while yield true false null`)}
	langKotlin = &language{name: "Kotlin", lineComments: slashes, blockComments: cComments, quotes: `"'`, tripleQuotes: true, preprocessor: '@',
		keywords: words(`abstract actual annotation as break by catch class companion const constructor continue crossinline data do else enum expect external false final finally for fun get if import in infix init inline inner interface internal is lateinit noinline null object open operator out override package private protected public reified return sealed set super suspend tailrec this throw true try typealias typeof val var vararg when where while`)}
	langSwift = &language{name: "Swift", lineComments: slashes, blockComments: cComments, quotes: `"`, tripleQuotes: true, preprocessor: '@',
		keywords: words(`actor any as associatedtype async await break case catch class continue convenience default defer deinit do else enum extension fallthrough false fileprivate final for func get guard if import in indirect init inout internal is lazy let mutating nil open operator override private protocol public repeat required rethrows return self Self set some static struct subscript super switch throw throws true try typealias unowned var weak where while`)}
	langCSharp = &language{name: "C#", lineComments: slashes, blockComments: cComments, quotes: `"'`, preprocessor: '#',
		keywords: words(`abstract as async await base bool break byte case catch char checked class const continue decimal default delegate do double else enum event explicit extern false finally fixed float for foreach get goto if implicit in init int interface internal is lock long namespace new null object operator out override params private protected public readonly record ref return sbyte sealed set short sizeof stackalloc static string struct switch this throw true try typeof uint ulong unchecked unsafe ushort using value var virtual void volatile when where while yield`)}
	langJS = &language{name: "JavaScript", lineComments: slashes, blockComments: cComments, quotes: "\"'`", rawQuotes: "`", escapesRaw: true, preprocessor: '@',
		keywords: words(`abstract any as async await boolean break case catch class const constructor continue debugger declare default delete do else enum export extends false finally for from function get if implements import in infer instanceof interface is keyof let module namespace never new null number object of package private protected public readonly require return satisfies set static string super switch symbol this throw true try type typeof undefined unique unknown var void while with yield`)}
	langPython = &language{name: "Python", lineComments: hashes, quotes: `"'`, tripleQuotes: true, preprocessor: '@',
		keywords: words(`False None True and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return self try while with yield`)}
	langRuby = &language{name: "Ruby", lineComments: hashes, quotes: `"'`, rawQuotes: `"'`,
		keywords: words(`BEGIN END alias and begin break case class def defined do else elsif end ensure false for if in module next nil not or redo rescue retry return self super then true undef unless until when while yield attr_accessor attr_reader require include`)}
	langPerl = &language{name: "Perl", lineComments: hashes, quotes: `"'`, rawQuotes: `"'`,
		keywords: words(`and bless cmp default die do each else elsif eq eval exists for foreach ge given gt if keys last le local lt map my ne next no not open or our package print printf push redo ref require return scalar shift sort split sprintf sub undef unless unshift until use values wantarray warn when while xor`)}
	langPHP = &language{name: "PHP", lineComments: []string{"//", "#"}, blockComments: cComments, quotes: `"'`, rawQuotes: `"'`,
		keywords: words(`abstract and array as break callable case catch class clone const continue declare default do echo else elseif empty enum extends final finally fn for foreach function global goto if implements include include_once instanceof insteadof interface isset list match namespace new null or print private protected public readonly require require_once return static switch throw trait true false try unset use var while xor yield`)}
	langShell = &language{name: "Shell", lineComments: hashes, quotes: `"'`, rawQuotes: `"'`,
		keywords: words(`alias break case cd continue declare do done echo elif else esac eval exec exit export fi for function if in local printf read readonly return select set shift source test then trap unset until while`)}
	langLua = &language{name: "Lua", lineComments: []string{"--"}, blockComments: [][2]string{{"--[[", "]]"}}, quotes: `"'`,
		keywords: words(`and break do else elseif end false for function goto if in local nil not or repeat return then true until while`)}
	langSQL = &language{name: "SQL", lineComments: []string{"--"}, blockComments: cComments, quotes: `'"`, rawQuotes: `'`, ignoreCase: true,
		keywords: words(`add all alter and as asc begin between bigint blob by bytea case check column commit constraint create cross database default delete desc distinct drop else end exists foreign from full function group having if in index inner insert int integer into is join key left like limit not null numeric offset on or order outer primary references returning right rollback select set smallint table text then timestamp to transaction trigger true false union unique update using values varchar view when where with`)}
	langHaskell = &language{name: "Haskell", lineComments: []string{"--"}, blockComments: [][2]string{{"{-", "-}"}}, quotes: `"`,
		keywords: words(`as case class data default deriving do else family forall foreign hiding if import in infix infixl infixr instance let mdo module newtype of proc qualified rec then type where`)}
	langOCaml = &language{name: "OCaml", blockComments: [][2]string{{"(*", "*)"}}, quotes: `"`,
		keywords: words(`and as assert begin class constraint do done downto else end exception external false for fun function functor if in include inherit initializer lazy let match method module mutable new nonrec object of open or private rec sig struct then to true try type val virtual when while with`)}
	langLisp = &language{name: "Lisp", lineComments: []string{";"}, quotes: `"`, rawQuotes: `"`,
		keywords: words(`and car cdr cond cons def defmacro defn defun defvar define do else fn if import lambda let letrec list loop nil not ns or progn quote require set setq true false unless use when`)}
	langElixir = &language{name: "Elixir", lineComments: hashes, quotes: `"'`, tripleQuotes: true, preprocessor: '@',
		keywords: words(`after alias and case catch cond def defimpl defmacro defmodule defp defprotocol defstruct do else end false fn for if import in nil not or quote raise receive require rescue true try unless unquote use when with`)}
	langZig = &language{name: "Zig", lineComments: slashes, quotes: `"'`, runes: true, preprocessor: '@',
		keywords: words(`addrspace align allowzero and anyframe anytype asm async await bool break catch comptime const continue defer else enum errdefer error export extern false fn for if inline noalias noinline nosuspend null opaque or orelse packed pub resume return struct suspend switch test threadlocal true try type undefined union unreachable usingnamespace usize var void volatile while u8 u16 u32 u64 i8 i16 i32 i64 f32 f64`)}
	langScala = &language{name: "Scala", lineComments: slashes, blockComments: cComments, quotes: `"'`, tripleQuotes: true, runes: true, preprocessor: '@',
		keywords: words(`abstract case catch class def derives do else enum export extends extension false final finally for forSome given if implicit import inline lazy match new null object opaque open override package private protected return sealed super then this throw trait transparent true try type using val var while with yield`)}
	langDart = &language{name: "Dart", lineComments: slashes, blockComments: cComments, quotes: `"'`, tripleQuotes: true, preprocessor: '@',
		keywords: words(`abstract as assert async await base bool break case catch class const continue covariant default deferred do double dynamic else enum export extends extension external factory false final finally for get hide if implements import in int interface is late library mixin new null of on operator part required rethrow return sealed set show static String super switch sync this throw true try typedef var void when while with yield`)}
	langNix    = &language{name: "Nix", lineComments: hashes, blockComments: cComments, quotes: `"`, rawQuotes: `"`, keys: true, keywords: words(`assert else false if import in inherit let null or rec then true with`)}
	langTOML   = &language{name: "TOML", lineComments: hashes, quotes: `"'`, tripleQuotes: true, keys: true, keywords: words(`true false`)}
	langYAML   = &language{name: "YAML", lineComments: hashes, quotes: `"'`, keys: true, keywords: words(`true false null yes no on off`)}
	langINI    = &language{name: "INI", lineComments: []string{"#", ";"}, quotes: `"`, keys: true}
	langJSON   = &language{name: "JSON", lineComments: slashes, blockComments: cComments, quotes: `"`, keywords: words(`true false null`)}
	langCSS    = &language{name: "CSS", lineComments: nil, blockComments: cComments, quotes: `"'`, preprocessor: '@', keys: true}
	langSCSS   = &language{name: "SCSS", lineComments: slashes, blockComments: cComments, quotes: `"'`, preprocessor: '@', keys: true}
	langHTML   = &language{name: "HTML", blockComments: htmlComments, quotes: `"`, markup: true}
	langXML    = &language{name: "XML", blockComments: htmlComments, quotes: `"`, markup: true}
	langMake   = &language{name: "Makefile", lineComments: hashes, quotes: `"'`, keys: true, keywords: words(`define else endef endif export ifdef ifeq ifndef ifneq include override unexport vpath PHONY`)}
	langDocker = &language{name: "Dockerfile", lineComments: hashes, quotes: `"'`, ignoreCase: true,
		keywords: words(`add arg as cmd copy entrypoint env expose from healthcheck label maintainer onbuild run shell stopsignal user volume workdir`)}
	langProto = &language{name: "Protocol Buffers", lineComments: slashes, blockComments: cComments, quotes: `"'`,
		keywords: words(`bool bytes double enum extend fixed32 fixed64 float import int32 int64 map message oneof option optional package public repeated required reserved returns rpc service sfixed32 sfixed64 sint32 sint64 stream string syntax uint32 uint64 true false`)}
	langWasm     = &language{name: "WebAssembly", lineComments: []string{";;"}, quotes: `"`, keywords: words(`module func param result local global memory table export import call if then else end block loop br br_if return type elem data i32 i64 f32 f64 mut`)}
	langVim      = &language{name: "Vim script", lineComments: []string{`"`}, quotes: `'`, keywords: words(`let if else elseif endif function endfunction for endfor while endwhile call return set autocmd command map nmap vmap imap noremap nnoremap syntax highlight`)}
	langCMake    = &language{name: "CMake", lineComments: hashes, quotes: `"`, rawQuotes: `"`, ignoreCase: true, keywords: words(`if else elseif endif foreach endforeach function endfunction macro endmacro set include project find_package add_library add_executable target_link_libraries`)}
	langTeX      = &language{name: "TeX", lineComments: []string{"%"}}
	langErlang   = &language{name: "Erlang", lineComments: []string{"%"}, quotes: `"`, keywords: words(`after and andalso band begin bnot bor case catch cond div else end fun if let maybe not of or orelse receive rem try when xor`)}
	langR        = &language{name: "R", lineComments: hashes, quotes: `"'`, keywords: words(`break else FALSE for function if in Inf NA NaN next NULL repeat return TRUE while library`)}
	langPatch    = &language{name: "Diff"}
	langMarkdown = &language{name: "Markdown"}
)

// byExtension are languages by the extensions of their files.
var byExtension = map[string]*language{
	"c": langC, "h": langC, "cc": langCpp, "cpp": langCpp, "cxx": langCpp, "hpp": langCpp, "hh": langCpp, "hxx": langCpp, "ino": langCpp, "cu": langCpp,
	"go": langGo, "rs": langRust, "java": langJava, "groovy": langJava, "gradle": langJava, "kt": langKotlin, "kts": langKotlin, "swift": langSwift, "cs": langCSharp,
	"js": langJS, "mjs": langJS, "cjs": langJS, "jsx": langJS, "ts": langJS, "tsx": langJS, "mts": langJS, "cts": langJS, "svelte": langJS, "vue": langJS,
	"py": langPython, "pyi": langPython, "pyw": langPython, "bzl": langPython, "rb": langRuby, "rake": langRuby, "gemspec": langRuby, "pl": langPerl, "pm": langPerl, "t": langPerl,
	"php": langPHP, "sh": langShell, "bash": langShell, "zsh": langShell, "ksh": langShell, "fish": langShell, "lua": langLua, "sql": langSQL,
	"hs": langHaskell, "elm": langHaskell, "ml": langOCaml, "mli": langOCaml, "el": langLisp, "lisp": langLisp, "clj": langLisp, "cljs": langLisp, "scm": langLisp, "rkt": langLisp,
	"ex": langElixir, "exs": langElixir, "erl": langErlang, "hrl": langErlang, "zig": langZig, "scala": langScala, "dart": langDart, "nix": langNix,
	"toml": langTOML, "yml": langYAML, "yaml": langYAML, "ini": langINI, "cfg": langINI, "conf": langINI, "service": langINI, "desktop": langINI, "properties": langINI, "gitmodules": langINI, "editorconfig": langINI,
	"json": langJSON, "jsonc": langJSON, "json5": langJSON, "webmanifest": langJSON, "css": langCSS, "scss": langSCSS, "sass": langSCSS, "less": langSCSS,
	"html": langHTML, "htm": langHTML, "xhtml": langHTML, "tmpl": langHTML, "xml": langXML, "svg": langXML, "xsl": langXML, "plist": langXML, "csproj": langXML,
	"mk": langMake, "mak": langMake, "proto": langProto, "wat": langWasm, "vim": langVim, "cmake": langCMake, "tex": langTeX, "sty": langTeX, "r": langR,
	"patch": langPatch, "diff": langPatch, "md": langMarkdown, "markdown": langMarkdown, "d": langC, "m": langC, "mm": langCpp, "glsl": langC, "v": langC, "sol": langJS, "tf": langNix, "hcl": langNix,
}

// byName are languages by the names of their files.
var byName = map[string]*language{
	"makefile": langMake, "gnumakefile": langMake, "dockerfile": langDocker, "containerfile": langDocker, "cmakelists.txt": langCMake, "gemfile": langRuby, "rakefile": langRuby,
	"justfile": langMake, "pkgbuild": langShell, "go.mod": langGo, "go.sum": plainText, ".bashrc": langShell, ".profile": langShell, ".gitconfig": langINI, ".gitmodules": langINI, "vagrantfile": langRuby,
	"meson.build": langPython, "build.bazel": langPython, "workspace": langPython, ".vimrc": langVim,
}

// nameByExtension are the names of languages that are coloured as another one.
var nameByExtension = map[string]string{
	"ts": "TypeScript", "tsx": "TypeScript", "mts": "TypeScript", "cts": "TypeScript", "svelte": "Svelte", "vue": "Vue", "sol": "Solidity",
	"tf": "Terraform", "hcl": "HCL", "v": "Verilog", "d": "D", "m": "Objective-C", "mm": "Objective-C++", "glsl": "GLSL", "cu": "CUDA",
	"scss": "SCSS", "sass": "Sass", "less": "Less", "groovy": "Groovy", "gradle": "Groovy", "elm": "Elm", "el": "Emacs Lisp",
	"clj": "Clojure", "cljs": "Clojure", "scm": "Scheme", "rkt": "Racket", "fish": "Fish", "wat": "WebAssembly",
}

// nameOf returns the name of the language of a file, "" if it is not known.
func (l *language) nameOf(file string) string {
	file = strings.ToLower(path.Base(file))
	if name := nameByExtension[strings.TrimPrefix(path.Ext(file), ".")]; name != "" && byName[file] == nil {
		return name
	}
	return l.name
}

// languageAt returns the language of a file as the page of a repository counts it. It is "" for data,
// for texts, and for copies of other projects.
func languageAt(file string) string {
	for segment := range strings.SplitSeq(path.Dir(file), "/") {
		switch segment {
		case "vendor", "node_modules", "third_party", "third-party":
			return ""
		}
	}
	l := languageOf(path.Base(file), nil)
	switch l {
	case langTOML, langYAML, langINI, langJSON, langXML, langPatch, langMarkdown:
		return ""
	}
	return l.nameOf(file)
}

// languageOf returns the language of a file by its name, or by its first line.
func languageOf(name string, content []byte) *language {
	name = strings.ToLower(name)
	if l := byName[name]; l != nil {
		return l
	}
	if l := byExtension[strings.TrimPrefix(path.Ext(name), ".")]; l != nil {
		return l
	}
	first, _, _ := bytes.Cut(content[:min(len(content), 200)], []byte{'\n'})
	if bytes.HasPrefix(first, []byte("#!")) {
		for program, l := range map[string]*language{"sh": langShell, "bash": langShell, "python": langPython, "perl": langPerl, "ruby": langRuby, "node": langJS, "php": langPHP, "lua": langLua} {
			if bytes.Contains(first, []byte("/"+program)) || bytes.Contains(first, []byte(" "+program)) {
				return l
			}
		}
	}
	if bytes.HasPrefix(first, []byte("<?xml")) {
		return langXML
	}
	return plainText
}

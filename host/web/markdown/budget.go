package markdown

import (
	"bytes"
	"context"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

const (
	// maxSteps bounds the work of a parse. A step is about 10 ns.
	maxSteps = 4 << 20

	// maxNesting bounds blocks within blocks: lists, quotes. Deeper ones are text.
	maxNesting = 30

	// maxDepth bounds elements within elements, emphasis included.
	maxDepth = 100

	// maxCells bounds the cells of the tables of a text. A table beyond is text.
	maxCells = 5000

	// maxPipes bounds the escaped bars within tables.
	maxPipes = 100
)

var budgetKey = parser.NewContextKey()

// budget counts the work of one parse. goldmark takes no context, and its time grows with the
// square of some texts. The parsers below count before they call those of goldmark, and panic
// when nothing is left.
type budget struct {
	ctx   context.Context
	left  int
	calls int

	block      ast.Node // whose inlines are parsed
	brackets   int      // that it has open
	delimiters int      // that it has
	cells      int
	pipes      int
}

func budgetOf(pc parser.Context) *budget { return pc.Get(budgetKey).(*budget) }

// charge counts steps.
func (b *budget) charge(steps int) {
	if b.left -= steps; b.left < 0 {
		panic(errComplex)
	}
	if b.calls++; b.calls%256 == 0 && b.ctx.Err() != nil {
		panic(b.ctx.Err())
	}
}

// enter notes which block the next inline belongs to.
func (b *budget) enter(block ast.Node) {
	if b.block != block {
		b.block, b.brackets, b.delimiters = block, 0, 0
	}
}

func newParser() parser.Parser {
	var blocks, inlines, paragraphs []util.PrioritizedValue
	for _, p := range parser.DefaultBlockParsers() {
		blocks = append(blocks, util.Prioritized(boundedBlock{p.Value.(parser.BlockParser)}, p.Priority))
	}
	for _, p := range append(parser.DefaultInlineParsers(),
		util.Prioritized(extension.NewTaskCheckBoxParser(), 0),
		util.Prioritized(extension.NewStrikethroughParser(), 500)) {
		inlines = append(inlines, util.Prioritized(bounded(p.Value.(parser.InlineParser)), p.Priority))
	}
	for _, p := range append(parser.DefaultParagraphTransformers(), util.Prioritized(extension.NewTableParagraphTransformer(), 200)) {
		paragraphs = append(paragraphs, util.Prioritized(boundedParagraph{p.Value.(parser.ParagraphTransformer), p.Priority == 200}, p.Priority))
	}
	return parser.NewParser(
		parser.WithBlockParsers(blocks...), parser.WithInlineParsers(inlines...), parser.WithParagraphTransformers(paragraphs...),
		parser.WithASTTransformers(util.Prioritized(extension.NewTableASTTransformer(), 0)),
	)
}

// boundedBlock opens no blocks in blocks that are deep already.
type boundedBlock struct{ parser.BlockParser }

func (p boundedBlock) Open(parent ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
	depth := 0
	for n := parent; n != nil; n = n.Parent() {
		depth++
	}
	budgetOf(pc).charge(8 + depth)
	if depth > maxNesting && opensBlocks(p.BlockParser) {
		return nil, parser.NoChildren
	}
	return p.BlockParser.Open(parent, reader, pc)
}

var containers = [...]parser.BlockParser{parser.NewBlockquoteParser(), parser.NewListParser()}

func opensBlocks(p parser.BlockParser) bool { return p == containers[0] || p == containers[1] }

func (p boundedBlock) Continue(node ast.Node, reader text.Reader, pc parser.Context) parser.State {
	budgetOf(pc).charge(8)
	return p.BlockParser.Continue(node, reader, pc)
}

// bounded returns an inline parser that counts steps. It keeps the method CloseBlock of a parser
// that has one.
func bounded(p parser.InlineParser) parser.InlineParser {
	if closer, ok := p.(parser.CloseBlocker); ok {
		return boundedCloser{boundedInline{p}, closer}
	}
	return boundedInline{p}
}

type boundedInline struct{ parser.InlineParser }

type boundedCloser struct {
	boundedInline
	parser.CloseBlocker
}

func (p boundedInline) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	b := budgetOf(pc)
	b.enter(parent)
	line, segment := block.PeekLine()
	// Most inlines end on their line, some search the block.
	cost := 8 + len(line)/128 + (len(block.Source())-segment.Start)/256
	switch line[0] {
	case '[', '!':
		b.brackets++
	case ']':
		// The parser looks through the inlines since the bracket that it closes.
		cost += 4 * b.brackets
		if len(line) > 1 && line[1] == '(' {
			cost += destination(line[2:]) / 8
		}
	case '*', '_', '~':
		// Each delimiter may be compared with all before it.
		b.delimiters++
		cost += b.delimiters / 4
	}
	b.charge(cost)
	node := p.InlineParser.Parse(parent, block, pc)
	if line[0] == ']' && node != nil && b.brackets > 0 {
		b.brackets--
	}
	return node
}

// destination returns how many bytes the parser reads as the destination of a link. Without a
// space and an end, these are the rest of the line, for each link of the line.
func destination(line []byte) int {
	opened := 0
	for i, c := range line {
		switch {
		case c <= ' ':
			return i
		case c == '(':
			opened++
		case c == ')':
			if opened--; opened < 0 {
				return i
			}
		}
	}
	return len(line)
}

// boundedParagraph leaves paragraphs alone that would become too large as a table.
type boundedParagraph struct {
	parser.ParagraphTransformer
	tables bool
}

func (p boundedParagraph) Transform(node *ast.Paragraph, reader text.Reader, pc parser.Context) {
	b := budgetOf(pc)
	lines := node.Lines()
	size, columns, pipes := 0, 0, 0
	for i := range lines.Len() {
		segment := lines.At(i)
		line := segment.Value(reader.Source())
		size += len(line)
		columns = max(columns, bytes.Count(line, []byte("|"))+1)
		pipes += bytes.Count(line, []byte(`\|`))
	}
	b.charge(size/8 + lines.Len()*lines.Len()/16)
	if p.tables && columns > 1 {
		if b.cells+columns*lines.Len() > maxCells || b.pipes+pipes > maxPipes {
			return
		}
		b.cells += columns * lines.Len()
		b.pipes += pipes
	}
	p.ParagraphTransformer.Transform(node, reader, pc)
}

// tooDeep reports whether a tree is too deep for the functions that walk it.
func tooDeep(root ast.Node) bool {
	depth := 0
	for n := root; ; {
		if child := n.FirstChild(); child != nil {
			if depth++; depth > maxDepth {
				return true
			}
			n = child
			continue
		}
		for n != root && n.NextSibling() == nil {
			n = n.Parent()
			depth--
		}
		if n == root {
			return false
		}
		n = n.NextSibling()
	}
}

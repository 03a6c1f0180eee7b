// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pages parses the Markdown files of the repository for tests that check their links, their anchors and the
// commands that they show.
package pages

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// Page is one Markdown file.
type Page struct {
	Path    string   // relative to the repository's root, with slashes
	Links   []string // targets of links and images, as written in the page
	Anchors map[string]bool
	Code    []Code
}

// Code is a code block or an inline code span.
type Code struct {
	Language string // of a fenced code block
	Inline   bool
	Text     string
}

// Root returns the repository's root: the closest parent of the working directory that contains the product's go.mod.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		raw, err := os.ReadFile(filepath.Join(dir, "go.mod")) // #nosec G304 -- parents of the working directory
		if err == nil && strings.HasPrefix(string(raw), "module github.com/csccm/csccm\n") {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no go.mod of github.com/csccm/csccm above the working directory")
		}
		dir = parent
	}
}

// ReadAll parses every Markdown file below root, except in build output, hidden and testdata directories.
func ReadAll(root string) ([]Page, error) {
	var out []Page
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		name := d.Name()
		if d.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" || name == "dist") {
				return filepath.SkipDir
			}
			return nil
		}

		if filepath.Ext(name) != ".md" {
			return nil
		}

		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}

		raw, err := os.ReadFile(path) // #nosec G304 G122 -- files of the repository
		if err != nil {
			return err
		}

		out = append(out, Parse(filepath.ToSlash(rel), raw))
		return nil
	})

	return out, err
}

// Parse parses one Markdown file.
func Parse(path string, source []byte) Page {
	p := Page{Path: path, Anchors: map[string]bool{}}
	doc := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			p.take(n, source)
		}
		return ast.WalkContinue, nil
	})
	return p
}

// namedAnchor matches an anchor that is written as HTML.
var namedAnchor = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)

func (p *Page) take(n ast.Node, source []byte) {
	switch n := n.(type) {
	case *ast.Link:
		p.Links = append(p.Links, string(n.Destination))
	case *ast.Image:
		p.Links = append(p.Links, string(n.Destination))
	case *ast.AutoLink:
		p.Links = append(p.Links, string(n.URL(source)))
	case *ast.Heading:
		p.addAnchor(Slug(content(n, source)))
	case *ast.FencedCodeBlock:
		p.Code = append(p.Code, Code{Language: string(n.Language(source)), Text: string(n.Lines().Value(source))})
	case *ast.CodeBlock:
		p.Code = append(p.Code, Code{Text: string(n.Lines().Value(source))})
	case *ast.CodeSpan:
		p.Code = append(p.Code, Code{Inline: true, Text: content(n, source)})
	case *ast.HTMLBlock:
		p.html(n.Lines().Value(source))
	case *ast.RawHTML:
		p.html(n.Segments.Value(source))
	}
}

func (p *Page) html(raw []byte) {
	for _, m := range namedAnchor.FindAllSubmatch(raw, -1) {
		p.Anchors[string(m[1])] = true
	}
	for _, m := range regexp.MustCompile(`<img [^>]*src="([^"]+)"`).FindAllSubmatch(raw, -1) {
		p.Links = append(p.Links, string(m[1]))
	}
}

// addAnchor adds a number to repeated anchors, as GitHub does for headings with the same text.
func (p *Page) addAnchor(slug string) {
	name := slug
	for i := 1; p.Anchors[name]; i++ {
		name = fmt.Sprintf("%s-%d", slug, i)
	}
	p.Anchors[name] = true
}

// content returns the text of a node without markup.
func content(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			b.Write(n.Value(source))
			if n.SoftLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(n.Value)
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// Slug returns the anchor that GitHub generates for a heading.
func Slug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(heading))
}

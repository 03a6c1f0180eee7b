// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// mask replaces secret values.
const mask = "***"

// maxValue limits the length of a value that is shown, in characters.
const maxValue = 120

// notOurs are the paths of fields that only the API server and controllers write.
var notOurs = []string{
	"metadata.managedFields", "metadata.resourceVersion", "metadata.uid", "metadata.generation",
	"metadata.creationTimestamp", "metadata.selfLink", "status",
	"metadata.annotations[deployment.kubernetes.io/revision]",
	"metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]",
}

// Lines returns the differences between two states of an object, sorted by path. Values of Secrets, and of environment
// variables with names like those of secrets, are masked. Lists of objects with names are compared by name, lists of
// strings as sets, other lists by position.
func Lines(before, after *unstructured.Unstructured) (lines []string) {
	was, is := map[string]any{}, map[string]any{}
	flatten(was, "", before.Object)
	flatten(is, "", after.Object)
	show := func(path string, v any) string { return show(after.GetKind() == "Secret", path, v) }
	all := maps.Clone(was)
	maps.Copy(all, is)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		path, _, _ := strings.Cut(key, "\x00")
		b, had := was[key]
		a, has := is[key]
		switch {
		case !had:
			lines = append(lines, fmt.Sprintf("+ %s: %s", path, show(path, a)))
		case !has:
			lines = append(lines, fmt.Sprintf("- %s: %s", path, show(path, b)))
		case a != b:
			lines = append(lines, fmt.Sprintf("%s: %s -> %s", path, show(path, b), show(path, a)))
		}
	}

	return lines
}

// flatten adds the values below v to out, by path. The key of a string in a list is the path of the list, a zero byte
// and the string.
func flatten(out map[string]any, path string, v any) {
	if slices.Contains(notOurs, path) || v == nil {
		return
	}

	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			flatten(out, join(path, key), v[key])
		}

	case []any:
		seen := map[string]bool{}
		for i, item := range v {
			if word, ok := item.(string); ok {
				out[path+"\x00"+word] = word
				continue
			}
			named, _ := item.(map[string]any)
			name, ok := named["name"].(string)
			if !ok || seen[name] {
				name = strconv.Itoa(i)
			}
			seen[name] = true
			flatten(out, path+"["+name+"]", item)
		}

	default:
		out[path] = v
	}
}

var (
	secretName = regexp.MustCompile(`(?i)pass|secret|token|key|credential`)
	envValue   = regexp.MustCompile(`(?:^|\.)env\[([^\]]*)\]\.value$`)
)

// show returns a value in one line.
func show(secret bool, path string, v any) string {
	if secret &&
		(strings.HasPrefix(path, "data.") ||
			strings.HasPrefix(path, "data[") ||
			strings.HasPrefix(path, "stringData")) {
		return mask
	}
	if m := envValue.FindStringSubmatch(path); m != nil && secretName.MatchString(m[1]) {
		return mask
	}
	s := fmt.Sprint(v)
	if text, ok := v.(string); ok {
		s = strconv.Quote(text)
	}
	if r := []rune(s); len(r) > maxValue {
		s = string(r[:maxValue]) + "..."
	}
	return s
}

func join(path, key string) string {
	switch {
	case strings.ContainsAny(key, "./"):
		return path + "[" + key + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

// Summary counts changes, for example "3 to create, 1 to change, 5 as they are".
func Summary(changes []Change) string {
	counts := map[string]int{}
	for _, c := range changes {
		counts[c.Action]++
	}
	var parts []string
	for _, p := range []struct{ action, text string }{
		{Create, "to create"}, {Update, "to change"}, {Delete, "to delete"}, {Keep, "as wanted"},
	} {
		if n := counts[p.action]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, p.text))
		}
	}
	if len(parts) == 0 {
		return "no objects"
	}
	return strings.Join(parts, ", ")
}

// Text returns the changes as lines, without unchanged objects. Several objects to create are one line unless all is
// set.
func Text(changes []Change, all bool) (lines []string) {
	created := func(c Change) bool { return c.Action == Create && c.Problem == "" }
	n := len(changes) - len(slices.DeleteFunc(slices.Clone(changes), created))
	if all = all || n < 2; !all {
		lines = append(lines, fmt.Sprintf("create %d objects (-v lists them)", n))
	}

	for _, c := range changes {
		if c.Action == Keep && c.Problem == "" || created(c) && !all {
			continue
		}
		lines = append(lines, c.Action+" "+c.Object())
		for _, l := range c.Lines {
			lines = append(lines, "  "+l)
		}
		if c.Problem != "" {
			lines = append(lines, "  ! "+c.Problem)
		}
	}

	return lines
}

// Different reports whether anything would change.
func Different(changes []Change) bool {
	return slices.ContainsFunc(changes, func(c Change) bool { return c.Action != Keep })
}

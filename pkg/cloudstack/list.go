// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/csccm/csccm/pkg/cloudstack/internal/flex"
	"github.com/csccm/csccm/pkg/cloudstack/internal/sanitize"
)

const (
	maxPageSize  = 500 // CloudStack's default maximum
	listAttempts = 3   // of a list that changes while it is read page by page
	maxPages     = 10000
)

var pageSizeLimit = regexp.MustCompile(`max allowed page size value: (\d+)`)

// listAll reads all pages of a list command. object is the member that holds the
// array, key identifies an entry. A list that cannot be read whole is an error:
// entries that are missing must never look like objects that do not exist.
func listAll[T any](ctx context.Context, c *Client, command, object string, params map[string]string, key func(*T) string) ([]T, error) {
	return listPages(ctx, c, listPage[T], command, object, params, key)
}

func listPages[T any](ctx context.Context, c *Client, read pager[T], command, object string, params map[string]string, key func(*T) string) ([]T, error) {
	for attempt := 1; ; attempt++ {
		items, changed, err := listOnce(ctx, c, read, command, object, params, key)
		if err != nil || changed == "" {
			return items, err
		}
		if attempt == listAttempts {
			return nil, &Error{Kind: KindTransient, Command: command, HTTPCode: http.StatusOK, Text: notComplete + ": " + changed}
		}
	}
}

// list is listAll with the entries converted; an empty list is nil.
func list[R, T any](ctx context.Context, c *Client, command, object string, f filter, key func(*R) string, to func(*R) T) ([]T, error) {
	raw, err := listAll(ctx, c, command, object, f, key)
	return convert(raw, to), err
}

const notComplete = "the list is not complete"

// listWhole reads a list of a command that ignores paging and answers with everything.
func listWhole[R, T any](ctx context.Context, c *Client, command, object string, f filter, to func(*R) T) ([]T, error) {
	raw, count, err := listPage[R](ctx, c, command, object, f)
	if err == nil && count > len(raw) {
		err = badAnswer(command, notComplete)
	}
	if err != nil {
		return nil, err
	}
	return convert(raw, to), nil
}

// convert maps the entries of a list; an empty list is nil.
func convert[R, T any](raw []R, f func(*R) T) []T {
	if len(raw) == 0 {
		return nil
	}
	out := make([]T, len(raw))
	for i := range raw {
		out[i] = f(&raw[i])
	}
	return out
}

// listOnce reads the pages once. changed says why the result cannot be trusted, if so.
func listOnce[T any](ctx context.Context, c *Client, read pager[T], command, object string, params map[string]string, key func(*T) string) (items []T, changed string, err error) {
	p := maps.Clone(params)
	if p == nil {
		p = map[string]string{}
	}
	total, seen := -1, map[string]struct{}{}
	size := c.currentPageSize()
	for page := 1; page <= maxPages; page++ {
		p["page"], p["pagesize"] = strconv.Itoa(page), strconv.Itoa(size)
		chunk, count, err := read(ctx, c, command, object, p)
		if err != nil {
			if page == 1 && c.learnPageSize(err, size) {
				return listOnce(ctx, c, read, command, object, params, key)
			}
			return nil, "", err
		}
		if page > 1 && count >= 0 && total >= 0 && count != total {
			return nil, fmt.Sprintf("the count changed from %d to %d between two pages", total, count), nil
		}
		if count >= 0 {
			total = count
		}
		for i := range chunk {
			k := key(&chunk[i])
			if _, dup := seen[k]; dup {
				return nil, "an entry came twice", nil
			}
			seen[k] = struct{}{}
		}
		items = append(items, chunk...)
		switch {
		case total >= 0 && len(items) >= total, total < 0 && len(chunk) < size:
			return items, "", nil
		case len(chunk) == 0:
			return nil, fmt.Sprintf("the server counts %d entries but sent %d", total, len(items)), nil
		}
	}
	return nil, fmt.Sprintf("more than %d pages", maxPages), nil
}

// listPage reads one page. count is -1 when the answer has none, which for
// CloudStack means an empty list.
func listPage[T any](ctx context.Context, c *Client, command, object string, params map[string]string) (chunk []T, count int, err error) {
	var raw map[string]json.RawMessage
	if err := c.call(ctx, command, params, &raw); err != nil {
		return nil, 0, err
	}
	count = -1
	if n, ok := raw["count"]; ok {
		var v flex.Int
		if err := json.Unmarshal(n, &v); err != nil || v < 0 {
			return nil, 0, badAnswer(command, "count is no number")
		}
		count = int(v)
	}
	if array, ok := raw[object]; ok {
		if err := json.Unmarshal(array, &chunk); err != nil {
			return nil, 0, badAnswer(command, object+" cannot be read: "+err.Error())
		}
	} else {
		for name := range raw {
			if name != "count" {
				return nil, 0, badAnswer(command, "the answer has no "+object)
			}
		}
	}
	return chunk, count, nil
}

func badAnswer(command, text string) *Error {
	return &Error{Kind: KindTransient, Command: command, HTTPCode: http.StatusOK, Text: "cannot understand the answer: " + sanitize.Text(text)}
}

// currentPageSize is 500, or less on a server whose maximum is smaller.
func (c *Client) currentPageSize() int {
	if n := c.pageSize.Load(); n > 0 {
		return int(n)
	}
	return maxPageSize
}

// learnPageSize reads the server's maximum out of the refusal of a larger page.
func (c *Client) learnPageSize(err error, asked int) bool {
	var e *Error
	if !errors.As(err, &e) || e.HTTPCode != 431 {
		return false
	}
	m := pageSizeLimit.FindStringSubmatch(e.Text)
	if m == nil {
		return false
	}
	n, convErr := strconv.Atoi(m[1])
	if convErr != nil || n < 1 || n >= asked {
		return false
	}
	c.pageSize.Store(int64(n))
	return true
}

// filter builds the parameters of a list, leaving out empty ones.
type filter map[string]string

func (f filter) set(name, value string) filter {
	if value != "" {
		f[name] = value
	}
	return f
}

func (f filter) flag(name string, on bool) filter {
	if on {
		f[name] = "true"
	}
	return f
}

// tags adds tag filters. Releases differ in whether several are and-ed or
// or-ed, so the answer must be filtered with hasTags as well.
func (f filter) tags(tags map[string]string) filter {
	for i, k := range slices.Sorted(maps.Keys(tags)) {
		prefix := "tags[" + strconv.Itoa(i) + "]."
		f[prefix+"key"], f[prefix+"value"] = k, tags[k]
	}
	return f
}

// hasTags reports whether all of want are among got.
func hasTags(got, want map[string]string) bool {
	for k, v := range want {
		if g, ok := got[k]; !ok || g != v {
			return false
		}
	}
	return true
}

func joinIDs(ids []string) string { return strings.Join(ids, ",") }

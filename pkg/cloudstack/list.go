// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	maxPageSize  = 500  // CloudStack's default maximum
	listAttempts = 3    // for a list that changes while its pages are read
	maxRoom      = 5000 // largest capacity that is allocated before the items are read

	// maxEntries and maxListBytes limit the size of a list, all pages together, because a list is kept in memory.
	// 100,000 VMs take some 200 MB.
	maxEntries   = 100_000
	maxListBytes = 256 << 20
)

// room is how many entries and bytes of a list may still be read.
type room struct{ entries, bytes int64 }

func newRoom() *room { return &room{maxEntries, maxListBytes} }

var errTooLarge = fmt.Errorf("the list has more than %d entries or %d MiB", maxEntries, maxListBytes>>20)

var pageSizeLimit = regexp.MustCompile(`max allowed page size value: (\d+)`)

// List reads all pages of a list command. object is the member that holds the array, and key identifies an entry. A
// list that cannot be read completely is an error: missing entries must never look like objects that do not exist.
func List[T any](
	ctx context.Context, c *Client, command, object string, params map[string]string, key func(*T) string,
) ([]T, error) {
	for attempt := 1; ; attempt++ {
		items, changed, err := listOnce(ctx, c, command, object, params, key)
		if err != nil || changed == "" {
			return items, err
		}
		if attempt == listAttempts {
			return nil, BadAnswer(command, notComplete+": "+changed)
		}
	}
}

const notComplete = "the list is not complete"

// listOnce reads the pages once. If the result cannot be trusted, changed says why.
//
// Each page after the first overlaps the one before. When an entry is deleted, later entries move up, and the first
// entry of the next page would be missed. The count would not show that if another entry was added meanwhile.
func listOnce[T any](
	ctx context.Context, c *Client, command, object string, params map[string]string, key func(*T) string,
) (items []T, changed string, err error) {
	p := maps.Clone(params)
	if p == nil {
		p = map[string]string{}
	}

	total, seen, budget := -1, map[string]struct{}{}, newRoom()
	largest := c.currentPageSize()
	for {
		page, size := nextPage(len(items), largest)
		p["page"], p["pagesize"] = strconv.Itoa(page), strconv.Itoa(size)
		chunk, count, err := listPage[T](ctx, c, command, object, p, budget)
		if err != nil {
			if len(items) == 0 && c.learnPageSize(err, largest) {
				return listOnce(ctx, c, command, object, params, key)
			}
			return nil, "", err
		}
		if len(items) > 0 && count >= 0 && total >= 0 && count != total {
			return nil, fmt.Sprintf("the count changed from %d to %d between two pages", total, count), nil
		}
		if count >= 0 {
			total = count
		}

		again := items[min(len(items), (page-1)*size):] // entries that were read before
		for i := range chunk {
			k := key(&chunk[i])
			_, dup := seen[k]
			if i < len(again) && k != key(&again[i]) || i >= len(again) && dup {
				return nil, "an entry moved to another page", nil
			}
			seen[k] = struct{}{}
		}
		fresh := chunk[min(len(chunk), len(again)):]
		items = append(items, fresh...)

		switch {
		case total >= 0 && len(items) >= total, total < 0 && len(chunk) < size:
			return items, "", nil
		case len(fresh) == 0:
			return nil, fmt.Sprintf("the server counts %d entries but sent %d", total, len(items)), nil
		}
	}
}

// nextPage returns the page with the most unread entries among those whose first entry was already read. If the page
// size is too small for such a page, nextPage returns the page that begins with the first unread entry.
func nextPage(read, largest int) (page, size int) {
	page, size = read/largest+1, largest
	if read == 0 {
		return page, size
	}

	end := read
	for s := largest; s > largest/2; s-- {
		n := (read-1)/s + 1
		if n*s > end && (n-1)*s < read {
			page, size, end = n, s, n*s
		}
	}
	return page, size
}

// listPage decodes one page while it arrives: VMs and members of a rule take some 2 KB each, and CloudStack has no
// parameter that omits fields. It fails if there is no room left. count is -1 if the answer has none, which for
// CloudStack means an empty list.
func listPage[T any](
	ctx context.Context, c *Client, command, object string, params map[string]string, budget *room,
) (items []T, count int, err error) {
	form := url.Values{"command": {command}, "response": {"json"}}
	for name, value := range params {
		form.Set(name, value)
	}

	before := *budget
	failure := c.exchange(ctx, form, func(answer io.Reader) (err error) {
		items, *budget = nil, before // undo what was read before the answer broke off
		counted := &io.LimitedReader{R: answer, N: budget.bytes}
		count, err = scan(counted, object, func(item *T, count int) error {
			if items == nil && count > 0 {
				items = make([]T, 0, min(count, maxRoom))
			}
			items = append(items, *item)
			if budget.entries--; budget.entries < 0 {
				return errTooLarge
			}
			return nil
		})
		if budget.bytes = counted.N; budget.bytes <= 0 {
			err = errTooLarge
		}
		return err
	})
	if failure != nil {
		return nil, 0, failure
	}

	return items, count, nil
}

// listWhole reads a list of a command that ignores paging.
func listWhole[T any](ctx context.Context, c *Client, command, object string, params map[string]string) ([]T, error) {
	items, count, err := listPage[T](ctx, c, command, object, params, newRoom())
	if err == nil && count > len(items) {
		return nil, BadAnswer(command, notComplete)
	}
	return items, err
}

// BadAnswer returns the error for an answer whose status is a success, but which is not what the command should return.
func BadAnswer(command, text string) *Error {
	return &Error{
		Kind:            KindTransient,
		Command:         command,
		HTTPCode:        http.StatusOK,
		Text:            sanitized(text),
		MayHaveHappened: !idempotent(command),
	}
}

// currentPageSize returns 500, or the server's maximum if it is known to be smaller.
func (c *Client) currentPageSize() int {
	if n := c.pageSize.Load(); n > 0 {
		return int(n)
	}
	return maxPageSize
}

// learnPageSize reads the server's maximum from its refusal of a larger page. It returns false for any other error.
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

// Params are the parameters of a call.
type Params map[string]string

// Set adds a parameter, unless its value is empty.
func (f Params) Set(name, value string) Params {
	if value != "" {
		f[name] = value
	}
	return f
}

// Flag adds the parameter with the value true if on is true.
func (f Params) Flag(name string, on bool) Params {
	if on {
		f[name] = "true"
	}
	return f
}

func (f Params) setTags(tags map[string]string) Params {
	for i, k := range slices.Sorted(maps.Keys(tags)) {
		prefix := "tags[" + strconv.Itoa(i) + "]."
		f[prefix+"key"], f[prefix+"value"] = k, tags[k]
	}
	return f
}

func joined(list []string) string { return strings.Join(list, ",") }

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !(darwin || freebsd || linux || netbsd || openbsd)

package prompt

// hideInput does nothing where consoles have other means; reading a secret hides it there.
func hideInput(any) (restore func()) { return func() {} }

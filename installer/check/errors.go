// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// errorAs is errors.As with the target as result.
func errorAs[T error](err error) (T, bool) {
	var t T
	found := errors.As(err, &t)
	return t, found
}

// isNotFound tells whether the API server has no such object.
func isNotFound(err error) bool { return err != nil && apierrors.IsNotFound(err) }

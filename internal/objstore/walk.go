package objstore

import "context"

// Walk visits every object below dir ("" = root), directories excluded; the children of each directory
// come in lexical order. visit may call the store. It stops at the first error, which it returns as it is.
// A missing directory has no objects; what is created or removed during the walk may be visited or not.
func Walk(ctx context.Context, st Store, dir string, visit func(Info) error) error {
	return st.List(ctx, dir, func(info Info) error {
		if info.Dir {
			return Walk(ctx, st, info.Name, visit)
		}
		return visit(info)
	})
}

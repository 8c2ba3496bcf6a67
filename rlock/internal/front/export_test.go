package front

import "context"

// Verify is the question about a holder by itself.
func Verify[H Holder](ctx context.Context, h H) { verify(ctx, h) }

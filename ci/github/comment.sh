#!/usr/bin/env bash
# Puts the file $COMMENT into the pull request $NUMBER: the comment that begins with the file's
# first line is updated, and made where there is none. Needs gh, and $GH_TOKEN that may write them.
set -euo pipefail

marker=$(head -n 1 "$COMMENT")
comments="repos/$GITHUB_REPOSITORY/issues/$NUMBER/comments"
id=$(MARKER=$marker gh api --paginate "$comments" \
    --jq '.[] | select(.user.type == "Bot" and (.body | startswith(env.MARKER))) | .id')
id=${id%%$'\n'*}
if [ -n "$id" ]; then
    gh api --silent --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$id" -F "body=@$COMMENT"
else
    gh api --silent --method POST "$comments" -F "body=@$COMMENT"
fi

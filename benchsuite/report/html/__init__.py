"""Reports as one self-contained HTML file: no network, no script but our own and Bokeh's."""
